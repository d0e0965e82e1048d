// Golden bytes from franz-go's kmsg package: the second, independent encoder.
//
// For each API that perigee serves, each version and both directions, this writes message bodies (no header) as
// [u32 big endian length][body]... into OUT/<api>_<req|resp>_v<N>_kmsg.bin, and pairs (a body with unknown tagged fields
// in every struct, then the same without them) into <name>_kmsg_tags.bin. Fields that a version lacks are left out by kmsg
// itself. Everything is drawn from fixed seeds: two runs write the same bytes.
//
// Then it reads what the Java encoder wrote there (<name>_java.bin, the other file of each pair) and proves that kmsg decodes
// and encodes it to the same bytes: both encoders agree, so a reader that differs from one of them is wrong.
//
// usage: go run . OUT
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type api struct {
	key      int16
	name     string
	min, max int16
}

var apis = []api{
	{0, "Produce", 0, 13}, {1, "Fetch", 4, 18}, {2, "ListOffsets", 0, 11}, {3, "Metadata", 0, 13}, {10, "FindCoordinator", 0, 6},
	{18, "ApiVersions", 0, 4}, {19, "CreateTopics", 0, 7}, {20, "DeleteTopics", 0, 6}, {22, "InitProducerId", 0, 5},
	{21, "DeleteRecords", 0, 2}, {35, "DescribeLogDirs", 1, 4},
	{37, "CreatePartitions", 0, 3}, {23, "OffsetForLeaderEpoch", 2, 4}, {32, "DescribeConfigs", 0, 4}, {33, "AlterConfigs", 0, 2},
	{44, "IncrementalAlterConfigs", 0, 1}, {74, "ListConfigResources", 0, 1},
	{60, "DescribeCluster", 0, 2}, {75, "DescribeTopicPartitions", 0, 0},
}

type mode int

const (
	dflt mode = iota
	filled
	nulls
	empty
	oneDefault
	long
	random
)

type filler struct {
	mode mode
	tags bool
	rng  *rand.Rand
}

// defaulter is every kmsg struct: Default sets the schema's default values.
type defaulter interface{ Default() }

func (f *filler) fill(v reflect.Value, depth int) {
	if d, ok := v.Addr().Interface().(defaulter); ok {
		d.Default()
	}
	for i := 0; i < v.NumField(); i++ {
		fv, ft := v.Field(i), v.Type().Field(i)
		switch {
		case ft.Name == "Version" && depth == 0:
		case ft.Name == "UnknownTags":
			if f.tags {
				t := fv.Addr().Interface().(*kmsg.Tags)
				t.Set(41, []byte{9, 8, 7, byte(depth)})
				t.Set(301, []byte{})
			}
		case f.mode != dflt:
			f.set(fv, depth)
		}
	}
}

func (f *filler) set(v reflect.Value, depth int) {
	if f.mode == random && f.rng.Intn(6) == 0 && v.Kind() != reflect.Slice {
		return // keeps its default
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if f.mode != oneDefault {
			v.SetInt(f.number(uint(v.Type().Bits())))
		}
	case reflect.String:
		if f.mode != oneDefault {
			v.SetString(f.text())
		}
	case reflect.Array: // a uuid
		if f.mode != oneDefault {
			for i := 0; i < v.Len(); i++ {
				v.Index(i).SetUint(uint64(f.rng.Intn(256)))
			}
		}
	case reflect.Struct:
		f.fill(v, depth+1)
	case reflect.Pointer:
		f.pointer(v, depth)
	case reflect.Slice:
		f.slice(v, depth)
	default:
		panic("no rule for " + v.Type().String())
	}
}

func (f *filler) pointer(v reflect.Value, depth int) {
	if f.mode == nulls || f.mode == random && f.rng.Intn(4) == 0 {
		v.Set(reflect.Zero(v.Type()))
		return
	}
	if f.mode == oneDefault {
		return
	}
	n := reflect.New(v.Type().Elem())
	f.set(n.Elem(), depth)
	v.Set(n)
}

func (f *filler) slice(v reflect.Value, depth int) {
	elem := v.Type().Elem()
	if f.mode == nulls && (depth == 0 || elem.Kind() == reflect.Uint8) || f.mode == random && f.rng.Intn(8) == 0 {
		v.Set(reflect.Zero(v.Type())) // kmsg writes null where the version allows it, else an empty array
		return
	}
	n := 2
	switch {
	case f.mode == empty:
		n = 0
	case f.mode == oneDefault:
		n = 1
	case f.mode == long && elem.Kind() != reflect.Struct:
		n = 130
	case f.mode == random:
		n = f.rng.Intn(3)
	case elem.Kind() == reflect.Uint8:
		n = 1 + f.rng.Intn(40)
	case elem.Kind() == reflect.Struct && depth > 0:
		n = 1
	}
	s := reflect.MakeSlice(v.Type(), n, n)
	for i := 0; i < n; i++ {
		e := s.Index(i)
		if elem.Kind() == reflect.Struct {
			f.fill(e, depth+1)
		} else if elem.Kind() == reflect.Uint8 {
			e.SetUint(uint64(f.rng.Intn(256)))
		} else if elem.Kind() == reflect.String && f.mode == long {
			e.SetString(fmt.Sprintf("t%d", f.rng.Intn(10)))
		} else {
			f.set(e, depth+1)
		}
	}
	v.Set(s)
}

func (f *filler) number(bits uint) int64 {
	max := int64(uint64(1)<<(bits-1) - 1)
	min := -max - 1
	if f.mode == random {
		edge := []int64{min, max, -1, 0, 1, 127, -128}
		if k := f.rng.Intn(2 * len(edge)); k < len(edge) {
			if edge[k] < min || edge[k] > max {
				return max
			}
			return edge[k]
		}
	}
	if n := int64(f.rng.Uint64()) & max; n != 0 {
		return n
	}
	return 3
}

func (f *filler) text() string {
	switch f.mode {
	case empty:
		return ""
	case long:
		return strings.Repeat("k", 126+f.rng.Intn(5))
	}
	pool := []string{"lager", "ship.ments-2", "f\u00fcnf", "\u6771\u4eac", "z", "\U0001f98a"}
	return fmt.Sprintf("%s%d", pool[f.rng.Intn(len(pool))], f.rng.Intn(100))
}

type message interface {
	SetVersion(int16)
	IsFlexible() bool
	AppendTo([]byte) []byte
	ReadFrom([]byte) error
}

func fresh(a api, dir string) message {
	if dir == "req" {
		return kmsg.RequestForKey(a.key).(message)
	}
	return kmsg.ResponseForKey(a.key).(message)
}

func body(a api, dir string, version int16, m mode, tags bool, seed int64) []byte {
	msg := fresh(a, dir)
	f := filler{m, tags, rand.New(rand.NewSource(seed))}
	f.fill(reflect.ValueOf(msg).Elem(), 0)
	msg.SetVersion(version)
	b := msg.AppendTo(nil)
	back := fresh(a, dir)
	back.SetVersion(version)
	if err := back.ReadFrom(b); err != nil {
		panic(fmt.Sprintf("%s %s v%d mode %d: %v", a.name, dir, version, m, err))
	}
	if !bytes.Equal(back.AppendTo(nil), b) {
		panic(fmt.Sprintf("%s %s v%d mode %d: read back differs", a.name, dir, version, m))
	}
	return b
}

func put(out *bytes.Buffer, b []byte) {
	_ = binary.Write(out, binary.BigEndian, uint32(len(b)))
	out.Write(b)
}

func write(path string, b []byte) {
	if err := os.WriteFile(path, b, 0o644); err != nil {
		panic(err)
	}
}

func one(out string, a api, dir string, version int16) {
	stem := fmt.Sprintf("%s_%s_v%d_kmsg", strings.ToLower(a.name), dir, version)
	h := fnv.New32a()
	h.Write([]byte(stem))
	seed := int64(h.Sum32())
	var buf bytes.Buffer
	for m := dflt; m <= random; m++ {
		n := int64(1)
		if m == random {
			n = 5
		}
		for i := int64(0); i < n; i++ {
			put(&buf, body(a, dir, version, m, false, seed+i))
		}
	}
	write(filepath.Join(out, stem+".bin"), buf.Bytes())
	msg := fresh(a, dir)
	msg.SetVersion(version)
	if !msg.IsFlexible() {
		return
	}
	buf.Reset()
	for _, m := range []mode{dflt, filled} {
		put(&buf, body(a, dir, version, m, true, seed))
		put(&buf, body(a, dir, version, m, false, seed))
	}
	write(filepath.Join(out, stem+"_tags.bin"), buf.Bytes())
}

// agree re-encodes every body of the Java file; with tags every first body of a pair.
func agree(out string, a api, dir string, version int16, suffix string) {
	name := fmt.Sprintf("%s_%s_v%d_%s.bin", strings.ToLower(a.name), dir, version, suffix)
	raw, err := os.ReadFile(filepath.Join(out, name))
	if os.IsNotExist(err) {
		return
	}
	for i := 0; len(raw) >= 4; i++ {
		n := binary.BigEndian.Uint32(raw)
		b := raw[4 : 4+n]
		raw = raw[4+n:]
		msg := fresh(a, dir)
		msg.SetVersion(version)
		if err := msg.ReadFrom(b); err != nil {
			fmt.Printf("%s body %d: kmsg cannot read it: %v\n", name, i, err)
			disagreed++
		} else if got := msg.AppendTo(nil); !bytes.Equal(got, b) {
			fmt.Printf("%s body %d: kmsg writes %x, not %x\n", name, i, got, b)
			disagreed++
		}
	}
}

var disagreed int

func main() {
	for _, a := range apis {
		for v := a.min; v <= a.max; v++ {
			for _, dir := range []string{"req", "resp"} {
				if max := fresh(a, dir).(interface{ MaxVersion() int16 }).MaxVersion(); v <= max {
					one(os.Args[1], a, dir, v)
					agree(os.Args[1], a, dir, v, "java")
					agree(os.Args[1], a, dir, v, "java_tags")
				}
			}
		}
	}
	if disagreed > 0 {
		fmt.Printf("the encoders disagree on %d bodies\n", disagreed)
		os.Exit(1)
	}
}
