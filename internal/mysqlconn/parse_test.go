package mysqlconn_test

import (
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/mysqlconn"
)

// Each of these the driver's parser quotes from.
func TestABadDSNIsNotRepeated(t *testing.T) {
	for _, dsn := range []string{
		"CANARY", "u:CANARY/db", "u:p@tcp(h)/db?parseTime=CANARY", "u:p@tcp(h)/db?tls=CANARY",
		"u:p@tcp(h)/%ZZCANARY", "u:p@tcp(h)/db?timeTruncate=CANARY", "u:p@tcp(h)/db?serverPubKey=CANARY",
	} {
		if _, err := mysqlconn.Parse(dsn); err == nil || strings.Contains(err.Error(), "CANARY") || !strings.Contains(err.Error(), "the form is") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
	if c, err := mysqlconn.Parse("u:p@tcp(h:1)/db"); err != nil || c.Passwd != "p" {
		t.Errorf("%+v, %v", c, err)
	}
}
