package main

// The steps with segmentio/kafka-go.

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

func client(bootstrap, clientID string) *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(bootstrap), Timeout: 8 * time.Second, Transport: &kafka.Transport{ClientID: clientID}}
}

func send(bootstrap, topic, clientID string, mechanism sasl.Mechanism, compression kafka.Compression) error {
	return sendBy(bootstrap, topic, clientID, mechanism, compression, nil)
}

func sendBy(bootstrap, topic, clientID string, mechanism sasl.Mechanism, compression kafka.Compression, by *tls.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	writer := &kafka.Writer{
		Addr: kafka.TCP(bootstrap), Topic: topic, RequiredAcks: kafka.RequireAll, MaxAttempts: 3, BatchTimeout: 10 * time.Millisecond,
		Compression: compression, Transport: &kafka.Transport{ClientID: clientID, SASL: mechanism, TLS: by},
	}
	defer writer.Close()
	return writer.WriteMessages(ctx, kafka.Message{Value: make([]byte, 100)}, kafka.Message{Value: []byte("v")})
}

func reader(bootstrap, topic, clientID string) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, Topic: topic, GroupID: clientID, StartOffset: kafka.FirstOffset, MaxWait: 200 * time.Millisecond,
		SessionTimeout: 6 * time.Second, HeartbeatInterval: 500 * time.Millisecond,
		WatchPartitionChanges: true, PartitionWatchInterval: time.Second,
		Dialer: &kafka.Dialer{ClientID: clientID, Timeout: 8 * time.Second},
	})
}

var steps = map[string]step{
	"produce": func(b, t, c, _ string) error { return send(b, t, c, nil, 0) },
	"zstd":    func(b, t, c, _ string) error { return send(b, t+"-zstd", c, nil, kafka.Zstd) },
	"consume": func(b, t, c, _ string) error {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		found := reader(b, t, c)
		defer func() { go found.Close() }()
		for i := 0; i < 3; i++ {
			if _, err := found.FetchMessage(ctx); err != nil {
				return err
			}
		}
		return nil
	},
	"commit": func(b, t, c, _ string) error {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		found := reader(b, t, c)
		message, err := found.FetchMessage(ctx)
		if err == nil {
			err = found.CommitMessages(ctx, message)
		}
		found.Close()
		if err != nil {
			return err
		}
		said, err := client(b, c).OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: c, Topics: map[string][]int{t: {message.Partition}}})
		if err != nil {
			return err
		}
		if at := said.Topics[t][0].CommittedOffset; at != message.Offset+1 {
			return fmt.Errorf("the committed offset is %d", at)
		}
		return nil
	},
	"rebalance": func(b, t, c, _ string) error {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		for i := 0; i < 2; i++ {
			found := reader(b, t, c)
			defer func() { go found.Close() }()
			go func() {
				for ctx.Err() == nil {
					_, _ = found.FetchMessage(ctx)
				}
			}()
		}
		for ctx.Err() == nil {
			said, err := client(b, c).DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{c}})
			if err == nil && len(said.Groups) == 1 && said.Groups[0].GroupState == "Stable" && len(said.Groups[0].Members) == 2 {
				return nil
			}
			time.Sleep(100 * time.Millisecond)
		}
		return fmt.Errorf("the group has no two members that are stable")
	},
	"offsets": func(b, t, c, _ string) error {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		_, err := client(b, c).ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{
			t: {kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0)}}})
		return err
	},
	"admin": func(b, t, c, _ string) error {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		cl, name := client(b, c), t+"-admin"
		created, err := cl.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: name, NumPartitions: 1, ReplicationFactor: 1}}})
		if err == nil {
			err = created.Errors[name]
		}
		if err != nil {
			return err
		}
		if _, err := cl.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: name, Count: 2}}}); err != nil {
			return err
		}
		if _, err := cl.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
			{ResourceType: kafka.ResourceTypeTopic, ResourceName: name}}}); err != nil {
			return err
		}
		_, err = cl.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{name}})
		return err
	},
	"steady": func(b, t, c, _ string) error { // copy records and commit their offsets until the process ends
		found, ctx := reader(b, t, c), context.Background()
		writer := &kafka.Writer{Addr: kafka.TCP(b), Topic: t + "-out", RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond,
			Transport: &kafka.Transport{ClientID: c}}
		for {
			message, err := found.FetchMessage(ctx)
			if err == nil {
				err = writer.WriteMessages(ctx, kafka.Message{Value: message.Value})
			}
			if err == nil {
				err = found.CommitMessages(ctx, message)
			}
			complain(err)
		}
	},
	"tls": func(b, t, c, _ string) error { return sendBy(b, t, c, nil, 0, trusted()) },
	"sasl": func(b, t, c, mechanism string) error {
		if mechanism == "PLAIN" {
			return send(b, t+"-sasl", c, plain.Mechanism{Username: user, Password: password}, 0)
		}
		algorithm := map[string]scram.Algorithm{"SCRAM-SHA-256": scram.SHA256, "SCRAM-SHA-512": scram.SHA512}[mechanism]
		how, err := scram.Mechanism(algorithm, user, password)
		if err != nil {
			return err
		}
		return send(b, t+"-sasl", c, how, 0)
	},
}
