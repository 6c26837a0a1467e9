// Franz is an operator's tool made of franz-go. It shares no code with featuregate, so what it sees in a cluster is what
// other people's programs see. It reads commands from standard input, a JSON object each, and prints a line for each:
//
//	franz host:port,host:port
//	{"do": "describe"}
//	{"do": "update", "updates": [{"feature": "group.version", "level": 1}], "upgradeType": 1, "validateOnly": true}
//
// A command is done as often at the same time as "times" says, and what is printed is a list. All commands go over the
// connections of one client, and each is given up after a while. It stands on kgo and kmsg alone: kadm takes the brokers
// from a cache, and keeps neither the messages nor the version that was spoken.
package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const bound = 20 * time.Second

type command struct {
	Do      string
	Updates []struct {
		Feature string
		Level   int16
	}
	UpgradeType  int8
	ValidateOnly bool
	Times        int
}

type levels [2]int16

type broker struct {
	Address   string            `json:"address"`
	Version   int16             `json:"version"` // of ApiVersions: the newest that both speak
	Release   string            `json:"release"` // what franz-go takes it for
	APIs      map[int16]levels  `json:"apis"`
	Supported map[string]levels `json:"supported"`
	Finalized map[string]levels `json:"finalized"`
	Epoch     int64             `json:"epoch"`
	Error     string            `json:"error"`
}

type described struct {
	ClusterID *string          `json:"clusterId"`
	Brokers   map[int32]broker `json:"brokers"`
}

type result struct {
	Feature string  `json:"feature"`
	Code    int16   `json:"code"`
	Message *string `json:"message"`
}

type updated struct {
	Version int16    `json:"version"` // of UpdateFeatures: the newest that both speak
	Code    int16    `json:"code"`
	Message *string  `json:"message"`
	Results []result `json:"results"`
}

type failed struct {
	Error string `json:"error"`
}

func describe(ctx context.Context, client *kgo.Client) (any, error) {
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{} // none, and not all
	metadata, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	found := described{metadata.ClusterID, make(map[int32]broker)}
	for _, node := range metadata.Brokers {
		found.Brokers[node.NodeID] = ask(ctx, client, node)
	}
	return found, nil
}

func ask(ctx context.Context, client *kgo.Client, node kmsg.MetadataResponseBroker) broker {
	address := net.JoinHostPort(node.Host, strconv.Itoa(int(node.Port)))
	request := kmsg.NewPtrApiVersionsRequest()
	request.ClientSoftwareName, request.ClientSoftwareVersion = "franz", "1"
	told, err := request.RequestWith(ctx, client.Broker(int(node.NodeID)))
	if err == nil {
		err = kerr.ErrorForCode(told.ErrorCode)
	}
	if err != nil {
		return broker{Address: address, Error: err.Error()}
	}
	found := broker{
		Address:   address,
		Version:   told.Version,
		Release:   kversion.FromApiVersionsResponse(told).VersionGuess(),
		APIs:      make(map[int16]levels),
		Supported: make(map[string]levels),
		Finalized: make(map[string]levels),
		Epoch:     told.FinalizedFeaturesEpoch,
	}
	for _, api := range told.ApiKeys {
		found.APIs[api.ApiKey] = levels{api.MinVersion, api.MaxVersion}
	}
	for _, feature := range told.SupportedFeatures {
		found.Supported[feature.Name] = levels{feature.MinVersion, feature.MaxVersion}
	}
	for _, feature := range told.FinalizedFeatures {
		found.Finalized[feature.Name] = levels{feature.MinVersionLevel, feature.MaxVersionLevel}
	}
	return found
}

func update(ctx context.Context, client *kgo.Client, wanted command) (any, error) {
	request := kmsg.NewPtrUpdateFeaturesRequest()
	request.TimeoutMillis = int32(bound.Milliseconds())
	request.ValidateOnly = wanted.ValidateOnly
	for _, each := range wanted.Updates {
		update := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		update.Feature, update.MaxVersionLevel, update.UpgradeType = each.Feature, each.Level, wanted.UpgradeType
		update.AllowDowngrade = wanted.UpgradeType > 1 // what version 0 has instead
		request.FeatureUpdates = append(request.FeatureUpdates, update)
	}
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	said := updated{response.Version, response.ErrorCode, response.ErrorMessage, []result{}}
	for _, each := range response.Results {
		said.Results = append(said.Results, result{each.Feature, each.ErrorCode, each.ErrorMessage})
	}
	return said, nil
}

func once(client *kgo.Client, wanted command) any {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	done, err := any(nil), error(nil)
	if wanted.Do == "update" {
		done, err = update(ctx, client, wanted)
	} else {
		done, err = describe(ctx, client)
	}
	if err != nil {
		return failed{err.Error()}
	}
	return done
}

func do(client *kgo.Client, wanted command) any {
	if wanted.Times == 0 {
		return once(client, wanted)
	}
	all := make([]any, wanted.Times)
	var running sync.WaitGroup
	for i := range all {
		running.Go(func() { all[i] = once(client, wanted) })
	}
	running.Wait()
	return all
}

func main() {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(os.Args[1], ",")...))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	commands, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for wanted := (command{}); commands.Decode(&wanted) == nil; wanted = (command{}) {
		if err := answers.Encode(do(client, wanted)); err != nil {
			panic(err)
		}
	}
}
