package store_test

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/store"
)

var update = flag.Bool("update", false, "write testdata/sent.*.sql anew")

var (
	anyID   = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	hexID   = regexp.MustCompile(`(3\d|6[1-6]){8}(2d(3\d|6[1-6]){4}){3}2d(3\d|6[1-6]){12}`) // the same as text in a list of MySQL
	anyTime = regexp.MustCompile(`\b\d{16}\b`)
	// decided is what a trigger's row ends with: its definition, which has a key of the store in it, and what was measured.
	decided = regexp.MustCompile(`'[0-9a-f]{16}',(\d+),(\d+),-?\d+,\d+,''\)`)
)

// What a replica sends in a day stands in testdata, a file for each database, with its parameters in it: each statement can be
// pasted into the client of that database. go test ./store -run TestSent -update writes the files.
func TestSent(t *testing.T) {
	for _, d := range []store.Dialect{store.SQLite, store.MySQL} {
		t.Run(string(d), func(t *testing.T) {
			s, db, r := recordedStore(t, d)
			var file strings.Builder
			fmt.Fprintf(&file, "-- What a replica sends to %s, with two tasks or jobs in each batch. Ids and times are others each time.\n", d)
			explain := "EXPLAIN "
			if d == store.MySQL {
				explain = store.Explain(t, db)
			}
			var pasted []string
			part := ""
			day(t, s, 2, func(next string) {
				calls := r.take()
				if part != "" {
					fmt.Fprintf(&file, "\n-- %s\n\n", part)
					for _, c := range calls {
						text := paste(t, c)
						pasted = append(pasted, text)
						fmt.Fprintf(&file, "%s;\n", text)
					}
				}
				part = next
			})
			for _, text := range pasted {
				switch strings.Fields(text)[0] {
				case "SELECT", "INSERT", "UPDATE", "DELETE":
					rows, err := db.QueryContext(t.Context(), explain+text)
					if err != nil {
						t.Errorf("%s: %v", text, err)
						continue
					}
					_ = rows.Close()
				}
			}
			name := fmt.Sprintf("testdata/sent.%s.sql", d)
			if *update {
				if err := os.WriteFile(name, []byte(file.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := file.String(); got != string(want) {
				t.Errorf("other statements than in %s are sent: run this test with -update, and read the difference:\n%s", name, firstDifference(got, string(want)))
			}
		})
	}
}

// paste is a statement with its parameters in their places.
func paste(t *testing.T, c call) string {
	t.Helper()
	parts := strings.Split(c.text, "?")
	if len(parts) != len(c.args)+1 {
		t.Fatalf("%d parameters for %s", len(c.args), c.text)
	}
	var b strings.Builder
	for i, part := range parts {
		b.WriteString(part)
		if i == len(c.args) {
			break
		}
		switch v := c.args[i].(type) {
		case nil:
			b.WriteString("NULL")
		case []byte:
			b.WriteString(quote(string(v)))
		case string:
			b.WriteString(quote(v))
		default:
			fmt.Fprint(&b, v)
		}
	}
	const id = "01900000-0000-7000-8000-000000000000"
	text := anyID.ReplaceAllString(b.String(), id)
	text = hexID.ReplaceAllString(text, hex.EncodeToString([]byte(id)))
	text = anyTime.ReplaceAllString(text, "1800000000000000")
	return decided.ReplaceAllString(text, "'0123456789abcdef',$1,$2,0,0,'')")
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// firstDifference is the first line of two texts that differs.
func firstDifference(got, want string) string {
	wanted := strings.Split(want, "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(wanted) || line != wanted[i] {
			return fmt.Sprintf("line %d: %s", i+1, line)
		}
	}
	return "the file has more lines"
}
