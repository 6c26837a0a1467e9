package main

// The login with GSSAPI, which franz-go has in a module of its own.

import (
	"os"

	krb5 "github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/kerberos"
)

func kerberosLogin() kgo.Opt {
	realm, err := config.Load(os.Getenv("KRB5_CONFIG"))
	if err != nil {
		panic(err)
	}
	keys, err := keytab.Load(os.Getenv("KERBEROS_KEYTAB"))
	if err != nil {
		panic(err)
	}
	found := krb5.NewWithKeytab("app", realm.LibDefaults.DefaultRealm, keys, realm, krb5.DisablePAFXFAST(true))
	return kgo.SASL(kerberos.Auth{Client: found, Service: "kafka"}.AsMechanism())
}
