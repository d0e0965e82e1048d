package main

import (
	"errors"
	"fmt"

	"github.com/IBM/sarama"
)

// saramaRound: a client pinned to an old protocol version (BR-003), and its view of an out-of-range offset (BR-004).
func saramaRound(args []string) error {
	version, err := sarama.ParseKafkaVersion(args[2])
	if err != nil {
		return err
	}
	conf := sarama.NewConfig()
	conf.Version = version
	conf.Producer.Return.Successes = true
	conf.Producer.RequiredAcks = sarama.WaitForAll
	cl, err := sarama.NewClient([]string{args[0]}, conf)
	if err != nil {
		return err
	}
	defer cl.Close()
	producer, err := sarama.NewSyncProducerFromClient(cl)
	if err != nil {
		return err
	}
	var first int64
	for i := 0; i < 20; i++ {
		_, offset, err := producer.SendMessage(&sarama.ProducerMessage{Topic: args[1], Value: sarama.StringEncoder(fmt.Sprintf("s-%d", i))})
		if err != nil {
			return err
		}
		if i == 0 {
			first = offset
		}
	}
	consumer, err := sarama.NewConsumerFromClient(cl)
	if err != nil {
		return err
	}
	part, err := consumer.ConsumePartition(args[1], 0, first)
	if err != nil {
		return err
	}
	for i := 0; i < 20; i++ {
		m := <-part.Messages()
		if string(m.Value) != fmt.Sprintf("s-%d", i) {
			return fmt.Errorf("offset %d holds %q", m.Offset, m.Value)
		}
	}
	if err := part.Close(); err != nil {
		return err
	}
	if _, err := consumer.ConsumePartition(args[1], 0, 1<<40); !errors.Is(err, sarama.ErrOffsetOutOfRange) {
		return fmt.Errorf("out of range was told as %v", err)
	}
	return nil
}
