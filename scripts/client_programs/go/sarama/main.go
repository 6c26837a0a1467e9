package main

// The steps with sarama, with the version of Kafka that it has by default. The import path is replaced for Shopify's.

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

func config(clientID string) *sarama.Config {
	made := sarama.NewConfig()
	made.ClientID = clientID
	if version, ok := settings["version"]; ok {
		parsed, err := sarama.ParseKafkaVersion(version)
		if err != nil {
			panic(err)
		}
		made.Version = parsed
	}
	made.Producer.Return.Successes = true
	made.Producer.RequiredAcks = sarama.WaitForAll
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	made.Consumer.Group.Session.Timeout = 6 * time.Second
	made.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	made.Metadata.Retry.Max = 3
	return made
}

func send(bootstrap, topic string, made *sarama.Config) error {
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, made)
	if err != nil {
		return err
	}
	defer producer.Close()
	for i := 0; i < 3; i++ {
		if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(make([]byte, 100))}); err != nil {
			return err
		}
	}
	return nil
}

type member struct {
	own      int
	assigned []int
	records  chan struct{}
	lock     *sync.Mutex
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.assigned[m.own] = 0
	for _, parts := range session.Claims() {
		m.assigned[m.own] += len(parts)
	}
	return nil
}
func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for range claim.Messages() {
		select {
		case m.records <- struct{}{}:
		default:
		}
	}
	return nil
}

func consuming(bootstrap, topic, clientID string, members int, enough func(records int, assigned []int) bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	lock, assigned, records := &sync.Mutex{}, make([]int, members), make(chan struct{}, 1000)
	failed := make(chan error, members)
	for i := 0; i < members; i++ {
		found, err := sarama.NewConsumerGroup([]string{bootstrap}, clientID, config(clientID))
		if err != nil {
			return err
		}
		defer func() { go found.Close() }()
		own := &member{own: i, assigned: assigned, records: records, lock: lock}
		go func() {
			for ctx.Err() == nil {
				if err := found.Consume(ctx, []string{topic}, own); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	for ctx.Err() == nil {
		lock.Lock()
		done := enough(len(records), assigned)
		lock.Unlock()
		if done {
			return nil
		}
		select {
		case err := <-failed:
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("%d records, the members have %v partitions", len(records), assigned)
}

// An app that copies what it reads, and marks it then: marks are committed once a second.
type copier struct {
	producer sarama.SyncProducer
	topic    string
}

func (copier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (own copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for each := range claim.Messages() {
		if _, _, err := own.producer.SendMessage(&sarama.ProducerMessage{Topic: own.topic, Value: sarama.ByteEncoder(each.Value)}); err != nil {
			return err
		}
		session.MarkMessage(each, "")
	}
	return nil
}

type provider struct{}

func (provider) Token() (*sarama.AccessToken, error) { return &sarama.AccessToken{Token: token()}, nil }

var steps = map[string]step{
	"produce": func(b, t, c, _ string) error { return send(b, t, config(c)) },
	"consume": func(b, t, c, _ string) error {
		return consuming(b, t, c, 1, func(records int, _ []int) bool { return records >= 3 })
	},
	"rebalance": func(b, t, c, _ string) error {
		return consuming(b, t, c, 2, func(_ int, assigned []int) bool { return assigned[0] == 1 && assigned[1] == 1 })
	},
	"commit": func(b, t, c, _ string) error {
		for at := 0; at < 2; at++ {
			client, err := sarama.NewClient([]string{b}, config(c))
			if err != nil {
				return err
			}
			manager, err := sarama.NewOffsetManagerFromClient(c, client)
			if err != nil {
				return err
			}
			part, err := manager.ManagePartition(t, 0)
			if err != nil {
				return err
			}
			if at == 0 {
				part.MarkOffset(1, "")
			} else if offset, _ := part.NextOffset(); offset != 1 {
				return fmt.Errorf("the committed offset is %d", offset)
			}
			select {
			case err := <-part.Errors():
				return err
			case <-time.After(1500 * time.Millisecond): // offsets are flushed once a second
			}
			part.Close()
			manager.Close()
			client.Close()
		}
		return nil
	},
	"offsets": func(b, t, c, _ string) error {
		client, err := sarama.NewClient([]string{b}, config(c))
		if err != nil {
			return err
		}
		defer client.Close()
		for _, at := range []int64{sarama.OffsetOldest, sarama.OffsetNewest} {
			if _, err := client.GetOffset(t, 0, at); err != nil {
				return err
			}
		}
		return nil
	},
	"admin": func(b, t, c, _ string) error {
		client, err := sarama.NewClusterAdmin([]string{b}, config(c))
		if err != nil {
			return err
		}
		defer client.Close()
		name := t + "-admin"
		if err := client.CreateTopic(name, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false); err != nil {
			return err
		}
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			_, err = client.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: name})
			if err == nil {
				err = client.CreatePartitions(name, 2, nil, false)
			}
			if err == nil || time.Now().After(end) {
				break
			}
		}
		if err != nil {
			return err
		}
		return client.DeleteTopic(name)
	},
	"steady": func(b, t, c, _ string) error { // copy records and commit their offsets until the process ends
		made := config(c)
		made.Metadata.RefreshFrequency = time.Second
		found, err := sarama.NewConsumerGroup([]string{b}, c, made)
		if err != nil {
			return err
		}
		producer, err := sarama.NewSyncProducer([]string{b}, config(c))
		if err != nil {
			return err
		}
		for {
			complain(found.Consume(context.Background(), []string{t}, copier{producer, t + "-out"}))
		}
	},
	"tls": func(b, t, c, _ string) error {
		made := config(c)
		made.Net.TLS.Enable, made.Net.TLS.Config = true, trusted()
		return send(b, t, made)
	},
	"sasl": func(b, t, c, mechanism string) error {
		made := config(c)
		_, realm, _ := strings.Cut(os.Getenv("KERBEROS_PRINCIPAL"), "@")
		made.Net.SASL.GSSAPI = sarama.GSSAPIConfig{
			AuthType: sarama.KRB5_KEYTAB_AUTH, KeyTabPath: os.Getenv("KERBEROS_KEYTAB"), KerberosConfigPath: os.Getenv("KRB5_CONFIG"),
			ServiceName: "kafka", Username: "app", Realm: realm, DisablePAFXFAST: true,
		}
		made.Net.SASL.Enable, made.Net.SASL.User, made.Net.SASL.Password = true, user, password
		made.Net.SASL.Mechanism = sarama.SASLMechanism(mechanism)
		made.Net.SASL.TokenProvider = provider{}
		return send(b, t+"-sasl", made)
	},
}
