package main

// The steps with franz-go.

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func client(bootstrap, clientID string, more ...kgo.Opt) (*kgo.Client, context.Context, func()) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	switch settings["max.versions"] {
	case "0.11.0":
		more = append(more, kgo.MaxVersions(kversion.V0_11_0()))
	case "2.0":
		more = append(more, kgo.MaxVersions(kversion.V2_0_0()))
	}
	made, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.ClientID(clientID)}, more...)...)
	if err != nil {
		panic(err)
	}
	return made, ctx, func() { cancel(); go made.Close() }
}

func send(bootstrap, topic, clientID string, more ...kgo.Opt) error {
	cl, ctx, end := client(bootstrap, clientID, more...)
	defer end()
	for i := 0; i < 3; i++ {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: make([]byte, 100)}).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

func group(clientID, topic string) []kgo.Opt {
	return []kgo.Opt{
		kgo.ConsumerGroup(clientID), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(500 * time.Millisecond),
	}
}

func read(ctx context.Context, cl *kgo.Client, count int) error {
	got := 0
	for got < count && ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 && ctx.Err() == nil {
			return errs[0].Err
		}
		got += fetches.NumRecords()
	}
	if got < count {
		return fmt.Errorf("%d of %d records", got, count)
	}
	return nil
}

func rebalance(bootstrap, topic, clientID string, _ string) error {
	assigned := make(chan [2]int, 100)
	for i := 0; i < 2; i++ {
		own := i
		have := 0
		options := append(group(clientID, topic),
			kgo.Balancers(kgo.RangeBalancer()),
			kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
				have += len(m[topic])
				assigned <- [2]int{own, have}
			}),
			kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
				have -= len(m[topic])
				assigned <- [2]int{own, have}
			}))
		cl, ctx, end := client(bootstrap, clientID, options...)
		defer end()
		go func() {
			for ctx.Err() == nil {
				cl.PollFetches(ctx)
			}
		}()
	}
	seen := [2]int{}
	for late := time.After(wait); ; {
		select {
		case one := <-assigned:
			seen[one[0]] = one[1]
		case <-late:
			return fmt.Errorf("the members have %v partitions", seen)
		}
		if seen == [2]int{1, 1} {
			return nil
		}
	}
}

var steps = map[string]step{
	"produce": func(b, t, c, _ string) error { return send(b, t, c) },
	"zstd": func(b, t, c, _ string) error {
		return send(b, t+"-zstd", c, kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	},
	"consume": func(b, t, c, _ string) error {
		cl, ctx, end := client(b, c, group(c, t)...)
		defer end()
		return read(ctx, cl, 3)
	},
	"commit": func(b, t, c, _ string) error {
		for at := int64(0); at < 2; at++ { // a second member begins at what the first one committed
			cl, ctx, end := client(b, c, append(group(c, t), kgo.Balancers(kgo.RangeBalancer()))...)
			fetches := cl.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				return err
			}
			first := fetches.Records()[0]
			if at == 0 {
				if err := cl.CommitRecords(ctx, first); err != nil {
					return err
				}
				cl.LeaveGroup()
			} else if committed := cl.CommittedOffsets()[t]; len(committed) == 0 {
				return fmt.Errorf("no offset was committed")
			}
			end()
		}
		return nil
	},
	"offsets": func(b, t, c, _ string) error {
		cl, ctx, end := client(b, c)
		defer end()
		for _, at := range []int64{-2, -1, 1} {
			req := kmsg.NewPtrListOffsetsRequest()
			req.ReplicaID = -1
			topic, part := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
			topic.Topic, part.Timestamp = t, at
			topic.Partitions = append(topic.Partitions, part)
			req.Topics = append(req.Topics, topic)
			for _, shard := range cl.RequestSharded(ctx, req) {
				if shard.Err != nil {
					return shard.Err
				}
			}
		}
		return nil
	},
	"rebalance": rebalance,
	"admin": func(b, t, c, _ string) error {
		cl, ctx, end := client(b, c)
		defer end()
		create := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = t+"-admin", 1, 1
		create.Topics = append(create.Topics, topic)
		create.TimeoutMillis = 8000
		if _, err := create.RequestWith(ctx, cl); err != nil {
			return err
		}
		parts := kmsg.NewPtrCreatePartitionsRequest()
		more := kmsg.NewCreatePartitionsRequestTopic()
		more.Topic, more.Count = t+"-admin", 2
		parts.Topics = append(parts.Topics, more)
		parts.TimeoutMillis = 8000
		if _, err := parts.RequestWith(ctx, cl); err != nil {
			return err
		}
		configs := kmsg.NewPtrDescribeConfigsRequest()
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, t+"-admin"
		configs.Resources = append(configs.Resources, resource)
		if _, err := configs.RequestWith(ctx, cl); err != nil {
			return err
		}
		remove := kmsg.NewPtrDeleteTopicsRequest()
		remove.TopicNames = []string{t + "-admin"}
		name := t + "-admin"
		remove.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
		remove.TimeoutMillis = 8000
		_, err := remove.RequestWith(ctx, cl)
		return err
	},
	"transactions": func(b, t, c, _ string) error {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		options := append(group(c, t), kgo.SeedBrokers(b), kgo.ClientID(c), kgo.TransactionalID(c))
		session, err := kgo.NewGroupTransactSession(options...)
		if err != nil {
			return err
		}
		defer func() { go session.Close() }()
		if err := session.PollFetches(ctx).Err(); err != nil {
			return err
		}
		if err := session.Begin(); err != nil {
			return err
		}
		if err := session.ProduceSync(ctx, &kgo.Record{Topic: t + "-out", Value: []byte("v")}).FirstErr(); err != nil {
			return err
		}
		committed, err := session.End(ctx, kgo.TryCommit)
		if err == nil && !committed {
			err = fmt.Errorf("the transaction was aborted")
		}
		return err
	},
	"steady": func(b, t, c, _ string) error { // copy records and commit their offsets until the process ends
		cl, _, _ := client(b, c, append(group(c, t), kgo.MetadataMaxAge(time.Second), kgo.MetadataMinAge(500*time.Millisecond))...)
		for ctx := context.Background(); ; {
			fetches := cl.PollFetches(ctx)
			complain(fetches.Err())
			for _, each := range fetches.Records() {
				complain(cl.ProduceSync(ctx, &kgo.Record{Topic: t + "-out", Value: each.Value}).FirstErr())
				complain(cl.CommitRecords(ctx, each))
			}
		}
	},
	"tls": func(b, t, c, _ string) error { return send(b, t, c, kgo.DialTLSConfig(trusted())) },
	"sasl": func(b, t, c, mechanism string) error {
		if mechanism == "GSSAPI" {
			return send(b, t+"-sasl", c, kerberosLogin())
		}
		login := scram.Auth{User: user, Pass: password}
		how := map[string]kgo.Opt{
			"PLAIN":         kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()),
			"OAUTHBEARER":   kgo.SASL(oauth.Auth{Token: token()}.AsMechanism()),
			"SCRAM-SHA-256": kgo.SASL(login.AsSha256Mechanism()),
			"SCRAM-SHA-512": kgo.SASL(login.AsSha512Mechanism()),
		}
		return send(b, t+"-sasl", c, how[mechanism])
	},
}
