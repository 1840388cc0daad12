package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// runCopier copies `in` to `out` in transactions until it is killed. An error ends it: its supervisor starts it again.
func runCopier(ctx context.Context, servers []string, transactionalID string) {
	session := must(kgo.NewGroupTransactSession(
		kgo.SeedBrokers(servers...),
		kgo.TransactionalID(transactionalID),
		kgo.TransactionTimeout(20*time.Second),
		kgo.ConsumerGroup("copiers"),
		kgo.ConsumeTopics("in"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(time.Second),
		kgo.DefaultProduceTopic("out"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	))
	defer session.Close()
	name := fmt.Sprintf("%x", rand.Uint64())
	for number := 0; ; number++ {
		records := session.PollRecords(ctx, 100).Records()
		if len(records) == 0 {
			continue
		}
		check(session.Begin())
		failed := kgo.AbortingFirstErrPromise(session.Client())
		for _, record := range records {
			session.Produce(ctx, copied(record, fmt.Sprintf("%s/%d", name, number), len(records)), failed.Promise())
		}
		wanted := kgo.TransactionEndTry(failed.Err() == nil)
		committed, err := session.End(ctx, wanted)
		check(err)
		if !committed {
			fmt.Fprintln(os.Stderr, "aborted", number, failed.Err())
		}
	}
}

func copied(record *kgo.Record, transaction string, size int) *kgo.Record {
	return &kgo.Record{
		Partition: record.Partition,
		Key:       record.Key,
		Value:     record.Value,
		Headers: []kgo.RecordHeader{
			{Key: "transaction", Value: []byte(transaction)},
			{Key: "size", Value: []byte(strconv.Itoa(size))},
		},
	}
}
