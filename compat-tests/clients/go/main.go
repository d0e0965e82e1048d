// Stock Go clients under the contract of ../README.md: franz-go, sarama (at a protocol version) and kafka-go.
//
//	clients-go franz-go|sarama|kafka-go [PROTOCOL_VERSION] PLAN
//
// Every step runs under the plan's limit; what a library does not offer answers with a skip. Exit 0 when every step has its line.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

type step struct {
	Do         string            `json:"do"`
	Topic      string            `json:"topic"`
	Partitions int32             `json:"partitions"`
	Configs    map[string]string `json:"configs"`
	Records    string            `json:"records"`
	Codec      string            `json:"codec"`
	Acks       int16             `json:"acks"`
	Idempotent bool              `json:"idempotent"`
	LingerMs   int64             `json:"linger_ms"`
	From       string            `json:"from"`
	Offsets    []int64           `json:"offsets"`
	Time       int64             `json:"time"`
	Until      []int64           `json:"until"`
}

type plan struct {
	Broker string  `json:"broker"`
	Out    string  `json:"out"`
	LimitS float64 `json:"limit_s"`
	Steps  []step  `json:"steps"`
}

// record is a line of a records file and of a consume step's answer; nil bytes are null.
type record struct {
	Step      int     `json:"step"`
	Partition int32   `json:"p"`
	Offset    int64   `json:"o"`
	Time      int64   `json:"t"`
	Key       []byte  `json:"k"`
	Value     []byte  `json:"v"`
	Headers   [][]any `json:"h"`
}

type header struct {
	name  string
	value []byte
}

// result is what a step's closing line carries beside its number.
type result map[string]any

// skip says that the client cannot do a step.
type skip string

func (s skip) Error() string { return string(s) }

// client is one library. A partition that is not in "from" is not read; earliest is -2, as in the protocol.
type client interface {
	create(ctx context.Context, s step) error
	list(ctx context.Context) ([]string, error)
	describe(ctx context.Context, topic string) (int, error)
	produce(ctx context.Context, s step, records []record) ([]int64, error)
	offsetsAt(ctx context.Context, topic string, partitions int, time int64) ([]int64, error)
	consume(ctx context.Context, topic string, from map[int32]int64, until []int64, emit func(record)) error
	configs(ctx context.Context, topic string) (map[string]string, error)
	alter(ctx context.Context, s step) error
	grow(ctx context.Context, s step) error
	trim(ctx context.Context, s step) ([]int64, error)
	remove(ctx context.Context, topic string) error
}

const (
	latest   = -1
	earliest = -2
)

// isEnd: this record is the last one wanted of its partition, or lies behind it.
func isEnd(offset int64, until int64) bool { return offset+1 >= until }

func (r record) headers() []header {
	out := make([]header, 0, len(r.Headers))
	for _, h := range r.Headers {
		one := header{name: h[0].(string)}
		if text, ok := h[1].(string); ok {
			must(json.Unmarshal([]byte(`"`+text+`"`), &one.value))
		}
		out = append(out, one)
	}
	return out
}

func made(partition int32, offset, time int64, key, value []byte, headers []header) record {
	r := record{Partition: partition, Offset: offset, Time: time, Key: key, Value: value, Headers: [][]any{}}
	for _, h := range headers {
		r.Headers = append(r.Headers, []any{h.name, h.value})
	}
	return r
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "clients-go:", err)
		os.Exit(1)
	}
}

func library(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version
		}
	}
	return "unknown"
}

func records(path string) []record {
	f, err := os.Open(path)
	must(err)
	defer f.Close()
	var out []record
	for in := json.NewDecoder(bufio.NewReaderSize(f, 1<<20)); in.More(); {
		var r record
		must(in.Decode(&r))
		out = append(out, r)
	}
	return out
}

func run(ctx context.Context, c client, s step, emit func(record)) (result, error) {
	switch s.Do {
	case "create":
		return nil, c.create(ctx, s)
	case "list":
		names, err := c.list(ctx)
		return result{"topics": names}, err
	case "describe":
		n, err := c.describe(ctx, s.Topic)
		return result{"partitions": n}, err
	case "produce":
		offsets, err := c.produce(ctx, s, records(s.Records))
		return result{"offsets": offsets}, err
	case "consume":
		return consume(ctx, c, s, emit)
	case "offsets":
		early, err := c.offsetsAt(ctx, s.Topic, int(s.Partitions), earliest)
		if err != nil {
			return nil, err
		}
		late, err := c.offsetsAt(ctx, s.Topic, int(s.Partitions), latest)
		return result{"earliest": early, "latest": late}, err
	case "configs":
		values, err := c.configs(ctx, s.Topic)
		return result{"configs": values}, err
	case "alter":
		return nil, c.alter(ctx, s)
	case "grow":
		return nil, c.grow(ctx, s)
	case "trim":
		low, err := c.trim(ctx, s)
		return result{"low": low}, err
	case "delete":
		return nil, c.remove(ctx, s.Topic)
	}
	return nil, fmt.Errorf("no such step: %s", s.Do)
}

func consume(ctx context.Context, c client, s step, emit func(record)) (result, error) {
	begin, err := s.Offsets, error(nil)
	switch s.From {
	case "earliest":
		begin, err = c.offsetsAt(ctx, s.Topic, len(s.Until), earliest)
	case "time":
		begin, err = c.offsetsAt(ctx, s.Topic, len(s.Until), s.Time)
	}
	if err != nil {
		return nil, err
	}
	from := map[int32]int64{}
	for p, o := range begin {
		if o < 0 || o >= s.Until[p] {
			continue
		}
		from[int32(p)] = o
		if s.From == "earliest" {
			from[int32(p)] = earliest
		}
	}
	if len(from) > 0 {
		err = c.consume(ctx, s.Topic, from, s.Until, emit)
	}
	return result{"start": begin}, err
}

// limited runs a step and gives it up at the limit: some libraries know no context.
func limited(limit time.Duration, c client, s step, emit func(record)) (result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	type answer struct {
		r   result
		err error
	}
	done := make(chan answer, 1)
	go func() {
		r, err := run(ctx, c, s, emit)
		done <- answer{r, err}
	}()
	select {
	case a := <-done:
		return a.r, a.err
	case <-time.After(limit + time.Second):
		return nil, errors.New("the step's time is over")
	}
}

func open(name, broker, version string) (client, string, error) {
	switch name {
	case "franz-go":
		c, err := newFranz(broker)
		return c, library("github.com/twmb/franz-go"), err
	case "sarama":
		c, err := newSarama(broker, version)
		return c, library("github.com/IBM/sarama"), err
	case "kafka-go":
		return newSegment(broker), library("github.com/segmentio/kafka-go"), nil
	}
	return nil, "", fmt.Errorf("no such client: %s", name)
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: clients-go franz-go|sarama|kafka-go [PROTOCOL_VERSION] PLAN")
		os.Exit(2)
	}
	protocol := ""
	if len(os.Args) > 3 {
		protocol = os.Args[2]
	}
	var p plan
	text, err := os.ReadFile(os.Args[len(os.Args)-1])
	must(err)
	must(json.Unmarshal(text, &p))
	file, err := os.Create(p.Out)
	must(err)
	out := bufio.NewWriterSize(file, 1<<20)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)

	c, version, err := open(os.Args[1], p.Broker, protocol)
	must(err)
	must(lines.Encode(result{"client": os.Args[1], "version": version}))
	var mu sync.Mutex
	for n, s := range p.Steps {
		over := false
		r, err := limited(time.Duration(p.LimitS*float64(time.Second)), c, s, func(r record) {
			mu.Lock()
			defer mu.Unlock()
			r.Step = n
			if !over {
				must(lines.Encode(r))
			}
		})
		mu.Lock()
		over = true
		must(lines.Encode(closing(n, r, err)))
		must(out.Flush())
		mu.Unlock()
	}
}

func closing(n int, r result, err error) result {
	var cannot skip
	if errors.As(err, &cannot) {
		return result{"step": n, "skip": string(cannot)}
	}
	if err != nil {
		return result{"step": n, "ok": false, "error": err.Error()}
	}
	line := result{"step": n, "ok": true}
	for k, v := range r {
		line[k] = v
	}
	return line
}
