package layers

import (
	"slices"
	"strings"
	"testing"
)

// heavy lists packages that a program with replicas or locks compiles only if it imports what needs them.
var heavy = []struct{ pkg, why string }{
	{"database/sql", "the store brings it: the scheduler runs on any implementation of its store interface"},
	{"net/http", "the API and the HTTP handler bring it: a worker need not serve HTTP"},
	{"os/exec", "the command handler brings it: Go functions start no processes"},
	{"html/template", "pages are the API's"},
	{"testing", "test code stays out of the product"},
}

// A program that imports the domain and the scheduler compiles no database, no client and no web server,
// and no package of the module that brings them.
func TestSchedulerIsLight(t *testing.T) {
	var seen []string
	for _, p := range packages(t) {
		name := p.name()
		if name != "scheduler" && name != "jobs" && name != "internal/ledger" && name != "locks" && name != "locks/driver" {
			continue
		}
		seen = append(seen, name)
		for _, dep := range p.Deps {
			for _, h := range heavy {
				if dep == h.pkg {
					t.Errorf("%s needs %s: %s", name, dep, h.why)
				}
			}
			for _, c := range clients {
				if strings.HasPrefix(dep, c.prefix) && !slices.Contains(c.by, "jobs") && !slices.Contains(c.by, "internal/icalendar") {
					t.Errorf("%s needs %s: %s", name, dep, c.why)
				}
			}
			if own, isOurs := ours(dep); isOurs {
				if home, l, _ := place(own); l != domain && home != "scheduler" {
					t.Errorf("%s needs %s, of the %s", name, own, l)
				}
			}
		}
	}
	if len(seen) != 5 {
		t.Errorf("only %v were seen", seen)
	}
}

// A program with MySQL alone does not link SQLite: it comes with the import of store/sqlite, or of another driver.
func TestMySQLAloneLinksNoSQLite(t *testing.T) {
	links := map[string]bool{"store": false, "locks/sqllock": false, "scheduler": false, "api": false, "store/sqlite": true}
	for _, p := range packages(t) {
		want, judged := links[p.name()]
		if !judged {
			continue
		}
		delete(links, p.name())
		if slices.ContainsFunc(p.Deps, func(dep string) bool { return strings.HasPrefix(dep, "modernc.org/sqlite") }) != want {
			t.Errorf("%s links SQLite: should be %t", p.name(), want)
		}
	}
	if len(links) > 0 {
		t.Errorf("%v were not seen", links)
	}
}

// A program that imports one lock backend compiles its client, and that of no other.
func TestBackendsHaveOneClient(t *testing.T) {
	own := map[string]string{
		"locks/redislock": "github.com/redis/", "locks/zklock": "github.com/go-zookeeper/", "locks/sqllock": "github.com/go-sql-driver/", "locks/memlock": "",
	}
	for _, p := range packages(t) {
		want, isBackend := own[p.name()]
		if !isBackend {
			continue
		}
		delete(own, p.name())
		found := map[string]bool{}
		for _, dep := range p.Deps {
			for _, c := range clients {
				if strings.HasPrefix(dep, c.prefix) {
					found[c.prefix] = true
				}
			}
		}
		if len(found) > 1 || want == "" && len(found) > 0 || want != "" && !found[want] {
			t.Errorf("%s compiles %v, want %q alone", p.name(), found, want)
		}
	}
	if len(own) > 0 {
		t.Errorf("%v were not seen", own)
	}
}
