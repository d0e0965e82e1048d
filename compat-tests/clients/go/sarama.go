package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// ibm is sarama at one protocol version, which decides the version of every API that it speaks.
type ibm struct {
	broker  string
	version sarama.KafkaVersion
	base    sarama.Client
	adm     sarama.ClusterAdmin
}

func newSarama(broker, version string) (client, error) {
	s := &ibm{broker: broker, version: sarama.MaxVersion}
	var err error
	if version != "" && version != "max" {
		if s.version, err = sarama.ParseKafkaVersion(version); err != nil {
			return nil, err
		}
	}
	if s.base, err = sarama.NewClient([]string{broker}, s.config()); err != nil {
		return nil, err
	}
	s.adm, err = sarama.NewClusterAdminFromClient(s.base)
	return s, err
}

func (s *ibm) config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = s.version
	c.Consumer.MaxWaitTime = 200 * time.Millisecond
	c.Consumer.Return.Errors = true
	return c
}

func (s *ibm) create(_ context.Context, p step) error {
	values := map[string]*string{}
	for k, v := range p.Configs {
		values[k] = &v
	}
	return s.adm.CreateTopic(p.Topic, &sarama.TopicDetail{NumPartitions: p.Partitions, ReplicationFactor: 1, ConfigEntries: values}, false)
}

func (s *ibm) list(context.Context) ([]string, error) {
	if err := s.base.RefreshMetadata(); err != nil {
		return nil, err
	}
	return s.base.Topics()
}

func (s *ibm) describe(_ context.Context, topic string) (int, error) {
	m, err := s.adm.DescribeTopics([]string{topic})
	if err != nil {
		return 0, err
	}
	if m[0].Err != sarama.ErrNoError {
		return 0, m[0].Err
	}
	return len(m[0].Partitions), nil
}

var saramaCodecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func (s *ibm) producing(p step) *sarama.Config {
	c := s.config()
	c.Producer.Compression = saramaCodecs[p.Codec]
	c.Producer.RequiredAcks = sarama.RequiredAcks(p.Acks)
	c.Producer.Idempotent = p.Idempotent
	if p.Idempotent {
		c.Net.MaxOpenRequests = 1
	}
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.Return.Successes = true
	c.Producer.Flush.Frequency = time.Duration(p.LingerMs) * time.Millisecond
	return c
}

// encoder: a nil Encoder is null, a ByteEncoder of no bytes is empty.
func encoder(b []byte) sarama.Encoder {
	if b == nil {
		return nil
	}
	return sarama.ByteEncoder(b)
}

func (s *ibm) produce(_ context.Context, p step, records []record) ([]int64, error) {
	if p.Codec == "zstd" && !s.version.IsAtLeast(sarama.V2_1_0_0) {
		return nil, skip("zstd needs protocol version 2.1")
	}
	producer, err := sarama.NewSyncProducer([]string{s.broker}, s.producing(p))
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	out := make([]*sarama.ProducerMessage, len(records))
	for i, r := range records {
		out[i] = &sarama.ProducerMessage{Topic: p.Topic, Partition: r.Partition, Timestamp: time.UnixMilli(r.Time), Key: encoder(r.Key), Value: encoder(r.Value)}
		for _, h := range r.headers() {
			out[i].Headers = append(out[i].Headers, sarama.RecordHeader{Key: []byte(h.name), Value: h.value})
		}
	}
	if err := producer.SendMessages(out); err != nil {
		var many sarama.ProducerErrors
		if errors.As(err, &many) && len(many) > 0 {
			return nil, fmt.Errorf("%d of %d records, the first: %w", len(many), len(records), many[0].Err)
		}
		return nil, err
	}
	offsets := make([]int64, len(out))
	for i, m := range out {
		offsets[i] = m.Offset
		if p.Acks == 0 {
			offsets[i] = -1
		}
	}
	return offsets, nil
}

func (s *ibm) offsetsAt(_ context.Context, topic string, partitions int, at int64) ([]int64, error) {
	out := make([]int64, partitions)
	for p := range out {
		o, err := s.base.GetOffset(topic, int32(p), at)
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
		out[p] = o
	}
	return out, nil
}

func (s *ibm) consume(ctx context.Context, topic string, from map[int32]int64, until []int64, emit func(record)) error {
	c, err := sarama.NewConsumer([]string{s.broker}, s.config())
	if err != nil {
		return err
	}
	defer c.Close()
	var all sync.WaitGroup
	failed := make(chan error, len(from))
	for p, o := range from {
		part, err := c.ConsumePartition(topic, p, o) // earliest is sarama.OffsetOldest
		if err != nil {
			return err
		}
		defer part.AsyncClose()
		all.Add(1)
		go func() {
			defer all.Done()
			failed <- drain(ctx, part, until[p], emit)
		}()
	}
	all.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

func drain(ctx context.Context, part sarama.PartitionConsumer, until int64, emit func(record)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-part.Errors():
			return e
		case m := <-part.Messages():
			if m.Offset < until {
				headers := make([]header, len(m.Headers))
				for i, h := range m.Headers {
					headers[i] = header{string(h.Key), h.Value}
				}
				emit(made(m.Partition, m.Offset, m.Timestamp.UnixMilli(), m.Key, m.Value, headers))
			}
			if isEnd(m.Offset, until) {
				return nil
			}
		}
	}
}

func (s *ibm) configs(_ context.Context, topic string) (map[string]string, error) {
	entries, err := s.adm.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, e := range entries {
		out[e.Name] = e.Value
	}
	return out, nil
}

func (s *ibm) alter(_ context.Context, p step) error {
	if !s.version.IsAtLeast(sarama.V2_3_0_0) { // the older call replaces all settings
		entries := map[string]*string{}
		for k, v := range p.Configs {
			entries[k] = &v
		}
		return s.adm.AlterConfig(sarama.TopicResource, p.Topic, entries, false)
	}
	entries := map[string]sarama.IncrementalAlterConfigsEntry{}
	for k, v := range p.Configs {
		entries[k] = sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &v}
	}
	return s.adm.IncrementalAlterConfig(sarama.TopicResource, p.Topic, entries, false)
}

func (s *ibm) grow(_ context.Context, p step) error {
	return s.adm.CreatePartitions(p.Topic, p.Partitions, nil, false)
}

func (s *ibm) trim(_ context.Context, p step) ([]int64, error) {
	want, low := map[int32]int64{}, make([]int64, len(p.Offsets))
	for i, o := range p.Offsets {
		want[int32(i)], low[i] = o, -1
	}
	return low, s.adm.DeleteRecords(p.Topic, want)
}

func (s *ibm) remove(_ context.Context, topic string) error { return s.adm.DeleteTopic(topic) }
