package config_test

import (
	"strings"
	"testing"
)

// Errors quote wrong values, except those that may have a password or a webhook's path.
func TestProblemsDoNotQuoteSecrets(t *testing.T) {
	for _, text := range []string{
		`lock: {driver: redis, redis: {addrs: ["redis://:CANARY@host:6379"]}}`,
		`lock: {driver: redis, redis: {addrs: ["u:CANARY@host"]}}`,
		`lock: {driver: zookeeper, zookeeper: {servers: ["digest://u:CANARY@host:2181"]}}`,
		`store: {dsn: "u:CANARY@tcp(h)/db"}`,
		`store: {dsn: "u:CANARY@unix(/s)/db"}`,
		`store: {dsn: "u:CANARY@/db"}`,
		`store: {driver: mysql, dsn: "u:CANARY/db"}`,
		`store: {driver: mysql, dsn: "u:CANARY@tcp(h/db"}`,
		`store: {driver: mysql, dsn: "u:p@tcp(h)/db?tls=CANARY"}`,
		`store: {driver: mysql, dsn: "mysql://u:CANARY@h/db"}`,
		`jobs: {a: {command: [a], notify: {webhook: "https://u:CANARY@h/x"}}}`,
		`jobs: {a: {command: [a], notify: {webhook: "https://h:CANARY/x"}}}`,
		`jobs: {a: {command: [a], notify: {webhook: "/services/CANARY"}}}`,
		`jobs: {a: {command: [a], notify: {webhook: "https://h/CANARY%"}}}`,
		`jobs: {a: {command: [a], notify: {webhook: ["https://h/CANARY"]}}}`,
		`jobs: {a: {command: [a], notify: {webhook: {"https://h/CANARY": x}}}}`,
		`jobs: {a: {http: {url: "https://169.254.169.254/CANARY"}}}`,
		`jobs: {a: {http: {url: "https://h/", headers: {X: "CANARY\n"}}}}`,
		`jobs: {a: {http: {url: "https://h/", headers: {X: [CANARY]}}}}`,
	} {
		if why := refused(t, text+"\n"); strings.Contains(why, "CANARY") {
			t.Errorf("%s\n%s", text, why)
		}
	}
}
