package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// segment is kafka-go: Writer and Reader as its users have them, Client for the rest.
type segment struct {
	broker string
	base   *kafka.Client
}

func newSegment(broker string) client {
	return &segment{broker, &kafka.Client{Addr: kafka.TCP(broker), Timeout: 30 * time.Second}}
}

func (s *segment) create(ctx context.Context, p step) error {
	want := kafka.TopicConfig{Topic: p.Topic, NumPartitions: int(p.Partitions), ReplicationFactor: 1}
	for k, v := range p.Configs {
		want.ConfigEntries = append(want.ConfigEntries, kafka.ConfigEntry{ConfigName: k, ConfigValue: v})
	}
	r, err := s.base.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{want}})
	if err != nil {
		return err
	}
	return r.Errors[p.Topic]
}

// metadata asks over a transport of its own: a transport answers from what its pool learned some seconds ago.
func (s *segment) metadata(ctx context.Context, topics ...string) (*kafka.MetadataResponse, error) {
	t := &kafka.Transport{}
	defer t.CloseIdleConnections()
	c := &kafka.Client{Addr: kafka.TCP(s.broker), Timeout: 30 * time.Second, Transport: t}
	return c.Metadata(ctx, &kafka.MetadataRequest{Topics: topics})
}

func (s *segment) list(ctx context.Context) ([]string, error) {
	m, err := s.metadata(ctx)
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, t := range m.Topics {
		out = append(out, t.Name)
	}
	return out, nil
}

func (s *segment) describe(ctx context.Context, topic string) (int, error) {
	m, err := s.metadata(ctx, topic)
	if err != nil {
		return 0, err
	}
	return len(m.Topics[0].Partitions), m.Topics[0].Error
}

var segmentCodecs = map[string]kafka.Compression{"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}

// place is what a message carries through the Writer: where it goes, and whose place in the answer it has.
type place struct {
	partition int32
	index     int
}

func (s *segment) writer(p step, offsets []int64) *kafka.Writer {
	var mu sync.Mutex
	return &kafka.Writer{
		Addr: kafka.TCP(s.broker), Topic: p.Topic, RequiredAcks: kafka.RequiredAcks(p.Acks), Compression: segmentCodecs[p.Codec],
		BatchTimeout: time.Duration(max(p.LingerMs, 1)) * time.Millisecond,
		Balancer:     kafka.BalancerFunc(func(m kafka.Message, _ ...int) int { return int(m.WriterData.(place).partition) }),
		Completion: func(done []kafka.Message, err error) {
			mu.Lock()
			defer mu.Unlock()
			for _, m := range done {
				offsets[m.WriterData.(place).index] = m.Offset
			}
		},
	}
}

func (s *segment) produce(ctx context.Context, p step, records []record) ([]int64, error) {
	if p.Idempotent {
		return nil, skip("the Writer is never idempotent")
	}
	offsets := make([]int64, len(records))
	messages := make([]kafka.Message, len(records))
	for i, r := range records {
		messages[i] = kafka.Message{Key: r.Key, Value: r.Value, Time: time.UnixMilli(r.Time), WriterData: place{r.Partition, i}}
		for _, h := range r.headers() {
			messages[i].Headers = append(messages[i].Headers, kafka.Header{Key: h.name, Value: h.value})
		}
	}
	w := s.writer(p, offsets)
	err := w.WriteMessages(ctx, messages...)
	err = errors.Join(err, w.Close())
	var many kafka.WriteErrors
	if errors.As(err, &many) {
		for _, one := range many {
			if one != nil {
				return nil, fmt.Errorf("%d of %d records, the first: %w", many.Count(), len(records), one)
			}
		}
	}
	if p.Acks == 0 {
		for i := range offsets {
			offsets[i] = -1
		}
	}
	return offsets, err
}

func (s *segment) offsetsAt(ctx context.Context, topic string, partitions int, at int64) ([]int64, error) {
	var ask []kafka.OffsetRequest
	for p := range partitions {
		ask = append(ask, kafka.OffsetRequest{Partition: p, Timestamp: at})
	}
	r, err := s.base.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: ask}})
	if err != nil {
		return nil, err
	}
	out := make([]int64, partitions)
	for _, got := range r.Topics[topic] {
		if got.Error != nil {
			return nil, fmt.Errorf("partition %d: %w", got.Partition, got.Error)
		}
		switch at {
		case earliest:
			out[got.Partition] = got.FirstOffset
		case latest:
			out[got.Partition] = got.LastOffset
		default:
			out[got.Partition] = -1
			for o := range got.Offsets {
				out[got.Partition] = o
			}
		}
	}
	return out, nil
}

func (s *segment) consume(ctx context.Context, topic string, from map[int32]int64, until []int64, emit func(record)) error {
	for p, o := range from { // a Reader has one partition
		if err := s.readOne(ctx, topic, p, o, until[p], emit); err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
	}
	return nil
}

func (s *segment) readOne(ctx context.Context, topic string, partition int32, from, until int64, emit func(record)) error {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{s.broker}, Topic: topic, Partition: int(partition), MaxWait: 200 * time.Millisecond})
	defer r.Close()
	if from == earliest {
		from = kafka.FirstOffset
	}
	if err := r.SetOffset(from); err != nil {
		return err
	}
	for {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return err
		}
		if m.Offset < until {
			headers := make([]header, len(m.Headers))
			for i, h := range m.Headers {
				headers[i] = header{h.Key, h.Value}
			}
			emit(made(int32(m.Partition), m.Offset, m.Time.UnixMilli(), m.Key, m.Value, headers))
		}
		if isEnd(m.Offset, until) {
			return nil
		}
	}
}

func (s *segment) configs(ctx context.Context, topic string) (map[string]string, error) {
	r, err := s.base.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}}})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, one := range r.Resources {
		if one.Error != nil {
			return nil, one.Error
		}
		for _, e := range one.ConfigEntries {
			out[e.ConfigName] = e.ConfigValue
		}
	}
	return out, nil
}

func (s *segment) alter(ctx context.Context, p step) error {
	var entries []kafka.IncrementalAlterConfigsRequestConfig
	for k, v := range p.Configs {
		entries = append(entries, kafka.IncrementalAlterConfigsRequestConfig{Name: k, Value: v, ConfigOperation: kafka.ConfigOperationSet})
	}
	r, err := s.base.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: p.Topic, Configs: entries}}})
	if err != nil {
		return err
	}
	for _, one := range r.Resources {
		if one.Error != nil {
			return one.Error
		}
	}
	return nil
}

func (s *segment) grow(ctx context.Context, p step) error {
	r, err := s.base.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: p.Topic, Count: p.Partitions}}})
	if err != nil {
		return err
	}
	return r.Errors[p.Topic]
}

func (s *segment) trim(context.Context, step) ([]int64, error) {
	return nil, skip("kafka-go has no call for DeleteRecords")
}

func (s *segment) remove(ctx context.Context, topic string) error {
	r, err := s.base.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return r.Errors[topic]
}
