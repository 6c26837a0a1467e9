package main

// The steps with confluent-kafka-go, which has its librdkafka in it.

import (
	"fmt"
	"time"

	"github.com/confluentinc/confluent-kafka-go/kafka"
)

func config(bootstrap, clientID string) *kafka.ConfigMap {
	return &kafka.ConfigMap{"bootstrap.servers": bootstrap, "client.id": clientID, "log_level": 2, "socket.timeout.ms": 6000}
}

func send(topic string, made *kafka.ConfigMap) error {
	producer, err := kafka.NewProducer(made)
	if err != nil {
		return err
	}
	for i := 0; i < 3; i++ {
		delivered := make(chan kafka.Event, 1)
		to := kafka.TopicPartition{Topic: &topic, Partition: kafka.PartitionAny}
		if err := producer.Produce(&kafka.Message{TopicPartition: to, Value: []byte("v")}, delivered); err != nil {
			return err
		}
		select {
		case event := <-delivered:
			if err := event.(*kafka.Message).TopicPartition.Error; err != nil {
				return err
			}
		case <-time.After(wait):
			return fmt.Errorf("no delivery report")
		}
	}
	return nil
}

func consumer(bootstrap, clientID string) (*kafka.Consumer, error) {
	made := config(bootstrap, clientID)
	for name, value := range map[string]kafka.ConfigValue{"group.id": clientID, "auto.offset.reset": "earliest", "enable.auto.commit": false} {
		_ = made.SetKey(name, value)
	}
	return kafka.NewConsumer(made)
}

func share(bootstrap, topic, clientID string, count int, enough func(records int, members []*kafka.Consumer) bool) error {
	members, records := []*kafka.Consumer{}, 0
	for i := 0; i < count; i++ {
		member, err := consumer(bootstrap, clientID)
		if err != nil {
			return err
		}
		if err := member.SubscribeTopics([]string{topic}, nil); err != nil {
			return err
		}
		members = append(members, member)
	}
	for end := time.Now().Add(wait); time.Now().Before(end); {
		for _, member := range members {
			if _, ok := member.Poll(100).(*kafka.Message); ok {
				records++
			}
		}
		if enough(records, members) {
			return nil
		}
	}
	return fmt.Errorf("%d records", records)
}

var steps = map[string]step{
	"produce": func(b, t, c, _ string) error { return send(t, config(b, c)) },
	"consume": func(b, t, c, _ string) error {
		return share(b, t, c, 1, func(records int, _ []*kafka.Consumer) bool { return records >= 3 })
	},
	"rebalance": func(b, t, c, _ string) error {
		return share(b, t, c, 2, func(_ int, members []*kafka.Consumer) bool {
			first, _ := members[0].Assignment()
			second, _ := members[1].Assignment()
			return len(first) == 1 && len(second) == 1
		})
	},
	"commit": func(b, t, c, _ string) error {
		part := kafka.TopicPartition{Topic: &t, Partition: 0, Offset: 1}
		first, err := consumer(b, c)
		if err != nil {
			return err
		}
		if _, err := first.CommitOffsets([]kafka.TopicPartition{part}); err != nil {
			return err
		}
		second, err := consumer(b, c)
		if err != nil {
			return err
		}
		found, err := second.Committed([]kafka.TopicPartition{part}, 8000)
		if err == nil && found[0].Offset != 1 {
			err = fmt.Errorf("the committed offset is %d", found[0].Offset)
		}
		return err
	},
	"offsets": func(b, t, c, _ string) error {
		found, err := consumer(b, c)
		if err != nil {
			return err
		}
		low, high, err := found.QueryWatermarkOffsets(t, 0, 8000)
		if err == nil && (low != 0 || high < 3) {
			err = fmt.Errorf("offsets %d, %d", low, high)
		}
		return err
	},
	"steady": func(b, t, c, _ string) error { // copy records and commit their offsets until the process ends
		made := config(b, c)
		for name, value := range map[string]kafka.ConfigValue{"group.id": c, "auto.offset.reset": "earliest",
			"enable.auto.commit": false, "topic.metadata.refresh.interval.ms": 1000} {
			_ = made.SetKey(name, value)
		}
		found, err := kafka.NewConsumer(made)
		if err != nil {
			return err
		}
		if err := found.SubscribeTopics([]string{t}, nil); err != nil {
			return err
		}
		producer, err := kafka.NewProducer(config(b, c))
		if err != nil {
			return err
		}
		for to := t + "-out"; ; {
			message, ok := found.Poll(500).(*kafka.Message)
			if !ok {
				continue
			}
			copied := &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &to, Partition: kafka.PartitionAny}, Value: message.Value}
			delivered := make(chan kafka.Event, 1)
			complain(producer.Produce(copied, delivered))
			complain((<-delivered).(*kafka.Message).TopicPartition.Error)
			_, err = found.CommitMessage(message)
			complain(err)
		}
	},
	"sasl": func(b, t, c, mechanism string) error {
		made := config(b, c)
		for name, value := range map[string]string{
			"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password} {
			_ = made.SetKey(name, value)
		}
		return send(t+"-sasl", made)
	},
}
