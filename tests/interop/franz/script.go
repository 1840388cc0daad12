package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const records = 60

var codecs = []struct {
	name  string
	codec kgo.CompressionCodec
}{
	{"none", kgo.NoCompression()},
	{"gzip", kgo.GzipCompression()},
	{"snappy", kgo.SnappyCompression()},
	{"lz4", kgo.Lz4Compression()},
	{"zstd", kgo.ZstdCompression()},
}

// script is what a client does in its life; seen is what it saw of it.
type script struct {
	servers, topic, group string
	beginMs               int64
	admin                 *kadm.Client
	seen                  map[string]any
}

func runScript(ctx context.Context, servers, name string, beginMs int64) map[string]any {
	s := &script{servers, name + "-orders", name + "-readers", beginMs, nil, map[string]any{}}
	client := s.client()
	defer client.Close()
	s.admin = kadm.NewClient(client)
	for _, step := range []func(context.Context){s.create, s.produce, s.consume, s.lookUp, s.share, s.administer} {
		step(ctx)
	}
	return s.seen
}

func (s *script) client(options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.SeedBrokers(strings.Split(s.servers, ",")...))
	return must(kgo.NewClient(options...))
}

func (s *script) create(ctx context.Context) {
	retention := "86400000"
	wanted := map[string]*string{"retention.ms": &retention}
	must(s.admin.CreateTopic(ctx, 3, 1, wanted, s.topic))
	_, err := s.admin.CreateTopic(ctx, 3, 1, wanted, s.topic)
	s.seen["again"] = failure(err)
	s.seen["partitions"] = s.partitions(ctx, 3)
}

// partitions waits: a broker may hear of it a moment after the controller has said that it is done.
func (s *script) partitions(ctx context.Context, wanted int) int {
	until(func() bool { return len(must(s.admin.ListTopics(ctx, s.topic))[s.topic].Partitions) == wanted })
	return wanted
}

func (s *script) record(codec string, index int) *kgo.Record {
	record := &kgo.Record{Topic: s.topic, Partition: int32(index % 3), Timestamp: time.UnixMilli(s.beginMs + int64(index))}
	if index%5 != 0 {
		record.Key = []byte(fmt.Sprintf("key-%d", index%7))
	}
	if index%11 != 0 {
		record.Value = []byte(fmt.Sprintf("%s %d", codec, index))
	}
	if index%2 == 0 {
		record.Headers = []kgo.RecordHeader{{Key: "codec", Value: []byte(codec)}, {Key: "empty", Value: []byte{}}}
	}
	return record
}

func (s *script) produce(ctx context.Context) {
	places := [][]int64{}
	for _, each := range codecs {
		keyed, unkeyed := []*kgo.Record{}, []*kgo.Record{}
		for index := range records {
			if record := s.record(each.name, index); record.Key != nil {
				keyed = append(keyed, record)
			} else {
				unkeyed = append(unkeyed, record)
			}
		}
		places = append(places, s.send(ctx, each.codec, kgo.StickyKeyPartitioner(nil), keyed)...)
		places = append(places, s.send(ctx, each.codec, kgo.ManualPartitioner(), unkeyed)...)
	}
	sort.Slice(places, func(i, j int) bool { return less(places[i], places[j]) })
	s.seen["places"] = places
	client := s.client(kgo.ProducerBatchMaxBytes(9_000_000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer client.Close()
	large := &kgo.Record{Topic: s.topic, Value: make([]byte, 2_080_000)}
	s.seen["too large"] = failure(client.ProduceSync(ctx, large).FirstErr())
}

func (s *script) send(ctx context.Context, codec kgo.CompressionCodec, to kgo.Partitioner, batch []*kgo.Record) [][]int64 {
	client := s.client(kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(to))
	defer client.Close()
	places := [][]int64{}
	for _, result := range client.ProduceSync(ctx, batch...) {
		check(result.Err)
		places = append(places, []int64{int64(result.Record.Partition), result.Record.Offset})
	}
	return places
}

func (s *script) consume(ctx context.Context) {
	client := s.client(kgo.ConsumerGroup(s.group), kgo.ConsumeTopics(s.topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	found := [][]any{}
	for len(found) < records*len(codecs) {
		fetches := client.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			headers := map[string]string{}
			for _, header := range r.Headers {
				headers[header.Key] = string(header.Value)
			}
			age := r.Timestamp.UnixMilli() - s.beginMs
			found = append(found, []any{r.Partition, r.Offset, text(r.Key), text(r.Value), age, headers})
		})
	}
	check(client.CommitUncommittedOffsets(ctx))
	s.seen["group while it reads"] = s.described(ctx)
	client.Close()
	sort.Slice(found, func(i, j int) bool {
		one, other := found[i], found[j]
		return less([]int64{int64(one[0].(int32)), one[1].(int64)}, []int64{int64(other[0].(int32)), other[1].(int64)})
	})
	s.seen["records"] = found
	s.seen["group afterwards"] = s.described(ctx)
	s.seen["committed"] = s.committed(ctx)
}

func (s *script) described(ctx context.Context) string {
	group := must(s.admin.DescribeGroups(ctx, s.group))[s.group]
	return fmt.Sprintf("%s %d %s", group.State, len(group.Members), group.Protocol)
}

func (s *script) committed(ctx context.Context) map[int32]int64 {
	offsets := map[int32]int64{}
	must(s.admin.FetchOffsets(ctx, s.group)).Each(func(o kadm.OffsetResponse) { offsets[o.Partition] = o.At })
	return offsets
}

func (s *script) lookUp(ctx context.Context) {
	s.seen["earliest"] = offsets(s.admin.ListStartOffsets(ctx, s.topic))
	s.seen["latest"] = offsets(s.admin.ListEndOffsets(ctx, s.topic))
	s.seen["at a time"] = offsets(s.admin.ListOffsetsAfterMilli(ctx, s.beginMs+30, s.topic))
	s.seen["of the latest time"] = offsets(s.admin.ListMaxTimestampOffsets(ctx, s.topic))
}

func offsets(listed kadm.ListedOffsets, err error) map[int32]int64 {
	check(err)
	check(listed.Error())
	found := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { found[o.Partition] = o.Offset })
	return found
}

// share lets two members of one group divide the partitions; who leaves gives them back.
func (s *script) share(ctx context.Context) {
	one, other := s.member(), s.member()
	go one.poll(ctx)
	go other.poll(ctx)
	until(func() bool { return one.count() > 0 && other.count() > 0 && one.count()+other.count() == 3 })
	s.seen["shared"] = []int{one.count() + other.count()}
	other.client.Close()
	until(func() bool { return one.count() == 3 })
	s.seen["alone again"] = one.count()
	one.client.Close()
}

type member struct {
	client *kgo.Client
	lock   sync.Mutex
	holds  map[int32]bool
}

func (s *script) member() *member {
	m := &member{holds: map[int32]bool{}}
	note := func(holds bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			m.lock.Lock()
			defer m.lock.Unlock()
			for _, index := range changed[s.topic] {
				delete(m.holds, index)
				if holds {
					m.holds[index] = true
				}
			}
		}
	}
	m.client = s.client(kgo.ConsumerGroup(s.group), kgo.ConsumeTopics(s.topic), kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.OnPartitionsAssigned(note(true)), kgo.OnPartitionsRevoked(note(false)), kgo.OnPartitionsLost(note(false)))
	return m
}

func (m *member) poll(ctx context.Context) {
	for !m.client.PollFetches(ctx).IsClientClosed() {
	}
}

func (m *member) count() int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return len(m.holds)
}

func (s *script) administer(ctx context.Context) {
	longer := "172800000"
	altered := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &longer}}
	must(must(s.admin.AlterTopicConfigs(ctx, altered, s.topic)).On(s.topic, func(r *kadm.AlterConfigsResponse) error { return r.Err }))
	for _, config := range must(must(s.admin.DescribeTopicConfigs(ctx, s.topic)).On(s.topic, nil)).Configs {
		if config.Key == "retention.ms" {
			s.seen["retention"] = fmt.Sprintf("%s %s", config.MaybeValue(), config.Source)
		}
	}
	trimmed := kadm.Offsets{}
	trimmed.Add(kadm.Offset{Topic: s.topic, Partition: 0, At: 7})
	check(must(s.admin.DeleteRecords(ctx, trimmed)).Error())
	s.seen["trimmed"] = offsets(s.admin.ListStartOffsets(ctx, s.topic))
	check(must(s.admin.UpdatePartitions(ctx, 5, s.topic)).Error())
	s.seen["grown"] = s.partitions(ctx, 5)
	back := kadm.Offsets{}
	back.Add(kadm.Offset{Topic: s.topic, Partition: 1, At: 3, LeaderEpoch: -1})
	check(must(s.admin.CommitOffsets(ctx, s.group, back)).Error())
	s.seen["set back"] = s.committed(ctx)
	check(must(s.admin.DeleteOffsets(ctx, s.group, kadm.TopicsSet{s.topic: {1: {}}})).Error())
	s.seen["forgotten"] = s.committed(ctx)
	check(must(s.admin.DeleteGroup(ctx, s.group)).Err)
	s.seen["group gone"] = s.described(ctx)
	check(must(s.admin.DeleteTopic(ctx, s.topic)).Err)
	until(func() bool { return !must(s.admin.ListTopics(ctx)).Has(s.topic) })
}

func failure(err error) string {
	if err == nil {
		return "none"
	}
	var typed *kerr.Error
	if errors.As(err, &typed) {
		return typed.Message
	}
	return err.Error()
}

func less(one, other []int64) bool {
	return one[0] < other[0] || one[0] == other[0] && one[1] < other[1]
}

func text(bytes []byte) any {
	if bytes == nil {
		return nil
	}
	return string(bytes)
}
