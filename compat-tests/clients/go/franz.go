package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// franz is franz-go: the newest protocol versions, fetch sessions, topic ids.
type franz struct {
	broker string
	base   *kgo.Client
	adm    *kadm.Client
}

func newFranz(broker string) (client, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.MetadataMinAge(10*time.Millisecond)) // kadm answers from a cache up to this age
	if err != nil {
		return nil, err
	}
	return &franz{broker, cl, kadm.NewClient(cl)}, nil
}

func (f *franz) create(ctx context.Context, s step) error {
	values := map[string]*string{}
	for k, v := range s.Configs {
		values[k] = kadm.StringPtr(v)
	}
	_, err := f.adm.CreateTopic(ctx, s.Partitions, 1, values, s.Topic)
	return err
}

func (f *franz) list(ctx context.Context) ([]string, error) {
	t, err := f.adm.ListTopics(ctx)
	return t.Names(), err
}

func (f *franz) describe(ctx context.Context, topic string) (int, error) {
	t, err := f.adm.ListTopics(ctx, topic)
	if err != nil {
		return 0, err
	}
	return len(t[topic].Partitions), t[topic].Err
}

var franzCodecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func (f *franz) produce(ctx context.Context, s step, records []record) ([]int64, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(f.broker), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(franzCodecs[s.Codec]), kgo.ProducerLinger(time.Duration(s.LingerMs) * time.Millisecond)}
	acks := map[int16]kgo.Acks{-1: kgo.AllISRAcks(), 0: kgo.NoAck(), 1: kgo.LeaderAck()}[s.Acks]
	opts = append(opts, kgo.RequiredAcks(acks))
	if !s.Idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	out := make([]*kgo.Record, len(records))
	for i, r := range records {
		out[i] = &kgo.Record{Topic: s.Topic, Partition: r.Partition, Timestamp: time.UnixMilli(r.Time), Key: r.Key, Value: r.Value}
		for _, h := range r.headers() {
			out[i].Headers = append(out[i].Headers, kgo.RecordHeader{Key: h.name, Value: h.value})
		}
	}
	if err := cl.ProduceSync(ctx, out...).FirstErr(); err != nil {
		return nil, err
	}
	offsets := make([]int64, len(out))
	for i, r := range out {
		offsets[i] = r.Offset
		if s.Acks == 0 {
			offsets[i] = -1
		}
	}
	return offsets, nil
}

func (f *franz) offsetsAt(ctx context.Context, topic string, partitions int, at int64) ([]int64, error) {
	ask := func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
		return f.adm.ListOffsetsAfterMilli(ctx, at, topics...)
	}
	switch at {
	case earliest:
		ask = f.adm.ListStartOffsets
	case latest:
		ask = f.adm.ListEndOffsets
	}
	listed, err := ask(ctx, topic)
	if err != nil {
		return nil, err
	}
	if at >= 0 { // "after this time" is the end where nothing is: the end is not an offset for the time
		return f.notTheEnd(ctx, topic, partitions, listed)
	}
	out := make([]int64, partitions)
	for p := range out {
		l, ok := listed.Lookup(topic, int32(p))
		if !ok || l.Err != nil {
			return nil, fmt.Errorf("partition %d: %v", p, l.Err)
		}
		out[p] = l.Offset
	}
	return out, nil
}

func (f *franz) notTheEnd(ctx context.Context, topic string, partitions int, listed kadm.ListedOffsets) ([]int64, error) {
	ends, err := f.offsetsAt(ctx, topic, partitions, latest)
	if err != nil {
		return nil, err
	}
	out := make([]int64, partitions)
	for p := range out {
		l, ok := listed.Lookup(topic, int32(p))
		if !ok || l.Err != nil {
			return nil, fmt.Errorf("partition %d: %v", p, l.Err)
		}
		out[p] = l.Offset
		if l.Offset >= ends[p] {
			out[p] = -1
		}
	}
	return out, nil
}

func (f *franz) consume(ctx context.Context, topic string, from map[int32]int64, until []int64, emit func(record)) error {
	want := map[int32]kgo.Offset{}
	for p, o := range from {
		want[p] = kgo.NewOffset().At(o)
		if o == earliest {
			want[p] = kgo.NewOffset().AtStart()
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(f.broker), kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: want}))
	if err != nil {
		return err
	}
	defer cl.Close()
	for open := len(from); open > 0; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, r := range fetches.Records() {
			if _, reading := want[r.Partition]; !reading {
				continue
			}
			if r.Offset < until[r.Partition] {
				headers := make([]header, len(r.Headers))
				for i, h := range r.Headers {
					headers[i] = header{h.Key, h.Value}
				}
				emit(made(r.Partition, r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value, headers))
			}
			if isEnd(r.Offset, until[r.Partition]) {
				delete(want, r.Partition)
				open--
			}
		}
	}
	return nil
}

func (f *franz) configs(ctx context.Context, topic string) (map[string]string, error) {
	r, err := f.adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, one := range r {
		if one.Err != nil {
			return nil, one.Err
		}
		for _, c := range one.Configs {
			out[c.Key] = c.MaybeValue()
		}
	}
	return out, nil
}

func (f *franz) alter(ctx context.Context, s step) error {
	var alter []kadm.AlterConfig
	for k, v := range s.Configs {
		alter = append(alter, kadm.AlterConfig{Op: kadm.SetConfig, Name: k, Value: kadm.StringPtr(v)})
	}
	r, err := f.adm.AlterTopicConfigs(ctx, alter, s.Topic)
	if err != nil {
		return err
	}
	for _, one := range r {
		if one.Err != nil {
			return fmt.Errorf("%w: %s", one.Err, one.ErrMessage)
		}
	}
	return nil
}

func (f *franz) grow(ctx context.Context, s step) error {
	r, err := f.adm.UpdatePartitions(ctx, int(s.Partitions), s.Topic)
	if err != nil {
		return err
	}
	return r.Error()
}

func (f *franz) trim(ctx context.Context, s step) ([]int64, error) {
	want := kadm.Offsets{}
	for p, o := range s.Offsets {
		want.Add(kadm.Offset{Topic: s.Topic, Partition: int32(p), At: o, LeaderEpoch: -1})
	}
	r, err := f.adm.DeleteRecords(ctx, want)
	if err != nil {
		return nil, err
	}
	low := make([]int64, len(s.Offsets))
	for p := range low {
		one, ok := r.Lookup(s.Topic, int32(p))
		if !ok || one.Err != nil {
			return nil, fmt.Errorf("partition %d: %v", p, one.Err)
		}
		low[p] = one.LowWatermark
	}
	return low, nil
}

func (f *franz) remove(ctx context.Context, topic string) error {
	_, err := f.adm.DeleteTopic(ctx, topic)
	return err
}
