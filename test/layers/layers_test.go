// Package layers tests which package may import which, with the reason for each forbidden import (docs/decisions.md).
package layers

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/servers"
)

const module = "github.com/lockstep-scheduler/lockstep"

// layer orders the packages: product code imports the domain, and the wiring imports everything.
type layer int

const (
	domain     layer = iota
	adapters         // to databases, lock services, commands and HTTP
	engine           // one replica
	interfaces       // to the network
	wiring           // files, flags, and the choice of adapters
	suite            // what tests of several packages share; never in the product
	outside          // programs and tests beside the product
)

func (l layer) String() string {
	return [...]string{"domain", "adapters", "engine", "interface", "wiring", "suite", "outside"}[l]
}

// layers names the layer of each package; a package below a named one belongs to it.
var layers = map[string]layer{
	"jobs": domain, "internal/ledger": domain, "jobs/reason": domain, "api/wire": domain, "locks": domain, "locks/driver": domain, "migrations": domain, "internal/abort": domain, "internal/accepted": domain, "internal/boottime": domain, "internal/bound": domain, "internal/calls": domain, "internal/clip": domain, "internal/duration": domain, "internal/filewatch": domain, "internal/foresight": domain, "internal/handshake": domain, "internal/icalendar": domain, "internal/identity": domain, "internal/limits": domain, "internal/mysqlconn": domain, "internal/naming": domain, "internal/nearest": domain, "internal/nesting": domain, "internal/nilcheck": domain, "internal/outfile": domain, "internal/paging": domain, "internal/plainjson": domain, "internal/process": domain, "internal/redisconn": domain, "internal/refusals": domain, "internal/sqlitefile": domain, "internal/sqlkit": domain, "internal/syskeys": domain, "internal/trustedfile": domain, "internal/unwrap": domain, "internal/why": domain, "internal/zone": domain,

	"locks/redislock": adapters, "locks/quorumlock": adapters, "locks/zklock": adapters, "locks/sqllock": adapters, "locks/memlock": adapters,
	"store": adapters, "store/sqlite": adapters, "jobs/exechandler": adapters, "jobs/httphandler": adapters,

	"scheduler": engine,
	"api":       interfaces, "client": interfaces, "metrics": interfaces,
	"docs":   domain,
	"config": wiring, "cmd/scheduler": wiring,

	"locks/lockstest": suite, "store/storetest": suite, "scheduler/schedulertest": suite, "scheduler/internal/replicatest": suite,
	"test": outside, "examples": outside, "locks/mistakes": outside,
}

// whyNot gives the reason for each edge that product code must not have.
var whyNot = map[[2]layer]string{
	{domain, adapters}:       "every package imports the domain: it must not bring a database, a client or a handler",
	{domain, engine}:         "every package imports the domain: it must not bring a scheduler",
	{domain, interfaces}:     "every package imports the domain: it must not bring a web server",
	{domain, wiring}:         "Go programs write the domain's types too: it knows no file format and no command",
	{adapters, adapters}:     "siblings do not know each other: a user of one adapter must not compile another, and each can be replaced alone",
	{adapters, engine}:       "the scheduler declares interfaces; adapters implement them and do not know the caller",
	{adapters, interfaces}:   "an adapter serves the scheduler, not the network",
	{adapters, wiring}:       "an adapter takes Go values; the wiring reads files and flags",
	{engine, adapters}:       "the scheduler runs on any store, lock and handler; only cmd/scheduler chooses them",
	{engine, engine}:         "there is one scheduler",
	{engine, interfaces}:     "a program that embeds the scheduler need not serve HTTP",
	{engine, wiring}:         "a program that embeds the scheduler has no file and no command line",
	{interfaces, adapters}:   "the API works with any store, through small interfaces",
	{interfaces, engine}:     "the API works with any scheduler, through small interfaces",
	{interfaces, interfaces}: "server and client share the domain, not code: each can be imported alone",
	{interfaces, wiring}:     "the API is mounted by programs that have no file and no command line",
}

// clients may be imported by product code of these packages only.
var clients = []struct {
	prefix string
	by     []string
	why    string
}{
	{"gorm.io/", []string{"store"}, "the ORM is an implementation detail of the store; locks do without it"},
	{"github.com/redis/", []string{"locks/redislock", "locks/quorumlock", "internal/redisconn", "cmd/scheduler"}, "a program with another lock backend must not compile a Redis client"},
	{"github.com/go-zookeeper/", []string{"locks/zklock", "cmd/scheduler"}, "a program with another lock backend must not compile a ZooKeeper client"},
	{"modernc.org/", []string{"store/sqlite", "cmd/scheduler"}, "SQLite is large: a program with MySQL alone does not link it"},
	{"github.com/go-sql-driver/", []string{"locks/sqllock", "internal/mysqlconn", "internal/sqlkit", "config", "cmd/scheduler"}, "MySQL's driver is imported where its errors or addresses are read"},
	{"github.com/robfig/cron/", []string{"jobs"}, "cron expressions have one strict reader"},
	{"github.com/emersion/go-ical", []string{"internal/icalendar"}, "calendar files have one reader, which bounds what they may be"},
	{"github.com/teambition/rrule-go", []string{"internal/icalendar"}, "rules of calendar files have one reader, which bounds what they may be"},
	{"go.yaml.in/", []string{"config", "cmd/scheduler"}, "YAML is read by the wiring; Go programs write the domain's types"},
	{"github.com/spf13/", []string{"cmd/scheduler"}, "commands are part of the wiring"},
	{"github.com/prometheus/", []string{"metrics"}, "a program that embeds the scheduler or a lock must not compile a metrics library"},
	{"github.com/anishathalye/porcupine", []string{"locks/lockstest"}, "checking histories is for tests"},
	{"github.com/google/go-cmp/", nil, "readable comparison is for tests"},
	{"github.com/santhosh-tekuri/", []string{"jobs"}, "the program reads its configuration itself, and only tests validate against its schema; payloads of runs by hand are judged by jobs"},
}

type pkg struct {
	ImportPath                               string
	Imports, TestImports, XTestImports, Deps []string
}

func (p pkg) name() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

var list = sync.OnceValues(func() ([]pkg, error) {
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
	return pkgs, nil
})

func packages(t *testing.T) []pkg {
	t.Helper()
	servers.ForgetResult() // the cache does not see that other packages changed
	pkgs, err := list()
	if err != nil {
		t.Fatal(err)
	}
	if len(pkgs) < 5 {
		t.Fatalf("go list sees only %d packages", len(pkgs))
	}
	return pkgs
}

// place finds the named package that p is, or is below.
func place(p string) (home string, l layer, ok bool) {
	for home = p; home != "." && home != ""; home = path.Dir(home) {
		if l, ok := layers[home]; ok {
			return home, l, true
		}
	}
	return "", 0, false
}

// ours returns the part behind the module path, if p is of this module.
func ours(p string) (string, bool) { return strings.CutPrefix(p, module+"/") }

// forbidden says why product code of package from must not import package to; empty if it may.
func forbidden(from, to string) string {
	home, a, ok := place(from)
	if !ok {
		return "it has no layer: name it in test/layers"
	}
	own, isOurs := ours(to)
	if !isOurs {
		for _, c := range clients {
			if strings.HasPrefix(to, c.prefix) && a < suite && !slices.Contains(c.by, home) {
				return c.why
			}
		}
		return ""
	}
	other, b, ok := place(own)
	switch {
	case !ok:
		return "what it imports has no layer: name it in test/layers"
	case home == other || a == outside:
		return ""
	case b == suite || b == outside:
		if a == suite {
			return ""
		}
		return "test code stays out of the product"
	case a == suite || a == wiring || b == domain:
		return ""
	default:
		return whyNot[[2]layer{a, b}]
	}
}

// forbiddenInTests is forbidden for _test.go files: these may import siblings, but no higher layer.
func forbiddenInTests(from, to string) string {
	own, isOurs := ours(to)
	if !isOurs {
		return ""
	}
	_, a, okA := place(from)
	_, b, okB := place(own)
	if okA && okB && b <= wiring && b > max(a, adapters) {
		return "a test that needs a layer above tests that layer, and belongs there"
	}
	return ""
}

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		for _, to := range p.Imports {
			if why := forbidden(p.name(), to); why != "" {
				t.Errorf("%s imports %s: %s", p.name(), to, why)
			}
		}
		for _, to := range slices.Concat(p.TestImports, p.XTestImports) {
			if why := forbiddenInTests(p.name(), to); why != "" {
				t.Errorf("tests of %s import %s: %s", p.name(), to, why)
			}
		}
	}
}

// A program that imports locks and one backend compiles no ORM and no client of another backend.
func TestLocksAreLight(t *testing.T) {
	seen := 0
	for _, p := range packages(t) {
		home, l, _ := place(p.name())
		if !strings.HasPrefix(p.name(), "locks") || l > adapters {
			continue
		}
		seen++
		for _, dep := range p.Deps {
			for _, c := range clients {
				if strings.HasPrefix(dep, c.prefix) && !slices.Contains(c.by, home) {
					t.Errorf("%s needs %s: %s", p.name(), dep, c.why)
				}
			}
		}
	}
	if seen < 2 {
		t.Errorf("only %d lock packages seen", seen)
	}
}

// The rules themselves: each line would be a hole if it were judged the other way.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"scheduler", module + "/jobs", true},
		{"scheduler", module + "/store", false},
		{"scheduler", "gorm.io/gorm", false},
		{"store", "gorm.io/gorm", true},
		{"store", module + "/scheduler", false},
		{"store", module + "/store/sqlite", false},
		{"store", module + "/store/models", true},
		{"store", module + "/store/storetest", false},
		{"store/storetest", module + "/scheduler", true},
		{"store/storetest", module + "/test/servers", true},
		{"locks/sqllock", module + "/store", false},
		{"locks/sqllock", "gorm.io/driver/mysql", false},
		{"locks/sqllock", module + "/locks/memlock", false},
		{"locks/sqllock", module + "/locks/driver", true},
		{"locks", "github.com/redis/go-redis/v9", false},
		{"jobs", module + "/jobs/exechandler", false},
		{"api", module + "/scheduler", false},
		{"client", module + "/api", false},
		{"client", module + "/api/wire", true},
		{"store", module + "/api/wire", true},
		{"api/wire", module + "/api", false},
		{"cmd/scheduler", module + "/locks/zklock", true},
		{"cmd/scheduler", module + "/test/servers", false},
		{"cmd/scheduler", "github.com/redis/go-redis/v9", true},
		{"cmd/scheduler", "gorm.io/gorm", false},
		{"test/cluster", "gorm.io/gorm", true},
		{"unknown", "fmt", false},
		{"store", module + "/unknown", false},
	} {
		if why := forbidden(c.from, c.to); (why == "") != c.ok {
			t.Errorf("%s importing %s: allowed should be %v, is judged %q", c.from, c.to, c.ok, why)
		}
	}
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"locks", module + "/locks/memlock", true},
		{"locks/sqllock", module + "/store", true},
		{"store", module + "/scheduler", false},
		{"scheduler", module + "/store", true},
		{"scheduler", module + "/config", false},
		{"api", module + "/scheduler", true},
	} {
		if why := forbiddenInTests(c.from, c.to); (why == "") != c.ok {
			t.Errorf("tests of %s importing %s: allowed should be %v, is judged %q", c.from, c.to, c.ok, why)
		}
	}
	for a := range wiring {
		for b := range wiring + 1 {
			if _, ok := whyNot[[2]layer{a, b}]; !ok && b != domain {
				t.Errorf("%v must not import %v, but no reason is given", a, b)
			}
		}
	}
}
