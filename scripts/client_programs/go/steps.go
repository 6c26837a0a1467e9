package main

// What the programs in Go share: run steps by name, and print one line of JSON for each.

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	user, password = "featuregate", "featuregate-secret"
	limit          = 20 * time.Second // clients retry for ever where a broker refuses what they send
	wait           = 12 * time.Second
)

// What an app sets beside the defaults of its client, such as {"version": "0.10.2.0"}.
var settings = func() (found map[string]string) {
	_ = json.Unmarshal([]byte(os.Getenv("CLIENT_SETTINGS")), &found)
	return found
}()

// The configuration of TLS, with the authority of the broker's certificate.
func trusted() *tls.Config {
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(os.Getenv("TLS_CA"))
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		panic("no certificate in " + os.Getenv("TLS_CA"))
	}
	return &tls.Config{RootCAs: pool, ServerName: "localhost"}
}

// An app that goes on after an error says it.
func complain(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		time.Sleep(100 * time.Millisecond)
	}
}

var errAbsent = errors.New("absent")

// A token without a signature (RFC 7519), which brokers take that have no validator.
func token() string {
	now := time.Now().Unix()
	claims := fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, user, now-60, now+600)
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(claims)) + "."
}

type step func(bootstrap, topic, clientID, mechanism string) error

func main() {
	bootstrap, sasl, runID := os.Args[1], os.Args[2], os.Args[3]
	for _, name := range os.Args[4:] {
		found, address, mechanism := steps[name], bootstrap, ""
		if strings.HasPrefix(name, "sasl-") {
			found, address, mechanism = steps["sasl"], sasl, strings.TrimPrefix(name, "sasl-")
		}
		if name == "tls" {
			address = os.Getenv("TLS_BOOTSTRAP")
		}
		if name == "steady" {
			complain(found(address, runID, runID+"."+name, "")) // it ends with the process
			os.Exit(1)
		}
		done := make(chan error, 1)
		go func() { done <- found(address, runID, runID+"."+name, mechanism) }()
		fate, why := "works", ""
		select {
		case err := <-done:
			if errors.Is(err, errAbsent) {
				fate, why = "absent", err.Error()
			} else if err != nil {
				fate, why = "fails", err.Error()
			}
		case <-time.After(limit):
			fate, why = "fails", "no end within 20 s"
		}
		text, _ := json.Marshal(why)
		fmt.Printf("{\"step\": %q, \"fate\": %q, \"why\": %s}\n", name, fate, text)
	}
}
