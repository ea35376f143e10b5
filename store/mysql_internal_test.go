package store

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// What a session must not have is refused, and the error names the setting and says what to do.
func TestSessionSettings(t *testing.T) {
	fine := map[string]string{
		"sql_mode": "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION", "autocommit": "ON", "sql_safe_updates": "OFF",
		"tx_read_only": "OFF", "transaction_read_only": "OFF", "tx_isolation": "REPEATABLE-READ", "transaction_isolation": "READ-COMMITTED",
		"sql_select_limit": "18446744073709551615", "max_allowed_packet": "16777216",
	}
	for _, c := range []struct{ name, value, want string }{
		{"sql_mode", "STRICT_ALL_TABLES", ""},
		{"sql_mode", "ANSI", "is not strict"},
		{"sql_mode", "STRICT_ALL_TABLES,EMPTY_STRING_IS_NULL", "remove EMPTY_STRING_IS_NULL"},
		{"autocommit", "OFF", "remove autocommit=0"},
		{"sql_safe_updates", "ON", "remove sql_safe_updates"},
		{"tx_read_only", "ON", "tx_read_only is on"},
		{"transaction_read_only", "ON", "transaction_read_only is on"},
		{"tx_isolation", "READ-UNCOMMITTED", "tx_isolation is READ-UNCOMMITTED"},
		{"transaction_isolation", "READ-UNCOMMITTED", "transaction_isolation is READ-UNCOMMITTED"},
		{"transaction_isolation", "SERIALIZABLE", ""},
		{"sql_select_limit", "4294967295", ""}, // the largest of a client of 32 bits
		{"sql_select_limit", "4294967294", "sql_select_limit is 4294967294"},
		{"sql_select_limit", "0", "sql_select_limit is 0"},
		{"sql_select_limit", "", ""}, // of a server that does not say
		{"max_allowed_packet", fmt.Sprint(leastPacket), ""},
		{"max_allowed_packet", fmt.Sprint(leastPacket - 1), fmt.Sprintf("must be %d or more", leastPacket)},
		{"max_allowed_packet", "", ""},
	} {
		settings := maps.Clone(fine)
		settings[c.name] = c.value
		err := checkSession(settings)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s=%s: %v, want %q", c.name, c.value, err, c.want)
		}
	}
}
