// What Go programs see: franz-go and sarama against the broker under test.
//
//	compat-go read BROKER TOPIC PARTITIONS OUTDIR     franz-go reads whole partitions, "key<TAB>value" lines into OUTDIR/<p>
//	compat-go produce BROKER TOPIC N                  franz-go with its defaults (idempotent, acks=all), then reads back
//	compat-go epochs BROKER TOPIC                     OffsetForLeaderEpoch through kmsg: current, next
//	compat-go sarama BROKER TOPIC VERSION             sarama pinned to VERSION produces and reads, out-of-range reported as such
//
// Exit 0 when everything held; else 1 with one line on standard error.
package main

import (
	"fmt"
	"os"
	"strconv"
)

func main() {
	commands := map[string]func([]string) error{
		"read": read, "produce": produce, "epochs": epochs, "sarama": saramaRound,
	}
	if len(os.Args) < 4 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: compat-go read|produce|epochs|sarama BROKER TOPIC ...")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "compat-go "+os.Args[1]+":", err)
		os.Exit(1)
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}
