package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func client(broker string, more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(broker), kgo.FetchMaxWait(200 * time.Millisecond)}, more...)...)
}

func limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 60*time.Second)
}

// ends asks for the end of each partition.
func ends(ctx context.Context, cl *kgo.Client, topic string, partitions int) (map[int32]int64, error) {
	req := kmsg.NewListOffsetsRequest()
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for p := 0; p < partitions; p++ {
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition = int32(p)
		part.Timestamp = -1
		t.Partitions = append(t.Partitions, part)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	out := map[int32]int64{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return nil, fmt.Errorf("ListOffsets of %d: error %d", p.Partition, p.ErrorCode)
			}
			out[p.Partition] = p.Offset
		}
	}
	return out, nil
}

// each reads every record of every partition from the beginning to the end as it is now.
func each(broker, topic string, partitions int, visit func(*kgo.Record) error) error {
	ctx, cancel := limited()
	defer cancel()
	from := map[int32]kgo.Offset{}
	for p := 0; p < partitions; p++ {
		from[int32(p)] = kgo.NewOffset().AtStart()
	}
	cl, err := client(broker, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err != nil {
		return err
	}
	defer cl.Close()
	end, err := ends(ctx, cl, topic, partitions)
	if err != nil {
		return err
	}
	next := map[int32]int64{}
	open := func() bool {
		for p, e := range end {
			if next[p] < e {
				return true
			}
		}
		return false
	}
	for open() {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, r := range fetches.Records() {
			if r.Offset < next[r.Partition] {
				return fmt.Errorf("partition %d went back to %d", r.Partition, r.Offset)
			}
			next[r.Partition] = r.Offset + 1
			if err := visit(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func read(args []string) error {
	if len(args) != 4 {
		return errors.New("read BROKER TOPIC PARTITIONS OUTDIR")
	}
	partitions := number(args[2])
	out := make([]*bufio.Writer, partitions)
	for p := range out {
		f, err := os.Create(filepath.Join(args[3], fmt.Sprint(p)))
		if err != nil {
			return err
		}
		defer f.Close()
		out[p] = bufio.NewWriter(f)
		defer out[p].Flush()
	}
	return each(args[0], args[1], partitions, func(r *kgo.Record) error {
		_, err := fmt.Fprintf(out[r.Partition], "%s\t%s\n", r.Key, r.Value)
		return err
	})
}

func produce(args []string) error {
	ctx, cancel := limited()
	defer cancel()
	cl, err := client(args[0])
	if err != nil {
		return err
	}
	defer cl.Close()
	n := number(args[2])
	for i := 0; i < n; i++ {
		r := &kgo.Record{Topic: args[1], Value: []byte(fmt.Sprintf("go-%d", i)), Partition: 0}
		if i%100 == 0 {
			if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
				return err
			}
			continue
		}
		cl.Produce(ctx, r, func(_ *kgo.Record, e error) {
			if e != nil {
				err = e
			}
		})
	}
	if e := cl.Flush(ctx); e != nil {
		return e
	}
	if err != nil {
		return err
	}
	seen := 0
	err = each(args[0], args[1], 1, func(r *kgo.Record) error {
		if string(r.Value) != fmt.Sprintf("go-%d", seen) {
			return fmt.Errorf("offset %d holds %q", r.Offset, r.Value)
		}
		seen++
		return nil
	})
	if err == nil && seen != n {
		err = fmt.Errorf("%d of %d records", seen, n)
	}
	return err
}

func epochs(args []string) error {
	ctx, cancel := limited()
	defer cancel()
	cl, err := client(args[0])
	if err != nil {
		return err
	}
	defer cl.Close()
	meta := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = kmsg.StringPtr(args[1])
	meta.Topics = append(meta.Topics, mt)
	info, err := meta.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	current := info.Topics[0].Partitions[0].LeaderEpoch
	end, err := ends(ctx, cl, args[1], 1)
	if err != nil {
		return err
	}
	ask := func(epoch int32) (int32, int64, error) {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.ReplicaID = -1
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = args[1]
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.LeaderEpoch = epoch
		p.CurrentLeaderEpoch = -1
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return 0, 0, err
		}
		a := resp.Topics[0].Partitions[0]
		if a.ErrorCode != 0 {
			return 0, 0, fmt.Errorf("epoch %d: error %d", epoch, a.ErrorCode)
		}
		return a.LeaderEpoch, a.EndOffset, nil
	}
	if e, o, err := ask(current); err != nil || e != current || o != end[0] {
		return fmt.Errorf("current epoch %d: got %d, %d, %v; the end is %d", current, e, o, err, end[0])
	}
	if e, o, err := ask(current + 1); err != nil || e != -1 || o != -1 {
		return fmt.Errorf("unknown epoch: got %d, %d, %v", e, o, err)
	}
	return nil
}
