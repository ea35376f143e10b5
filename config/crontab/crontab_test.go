package crontab

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/config"
)

var update = flag.Bool("update", false, "write the golden files")

// load loads a converted table: it must be valid.
func load(t testing.TB, table *Table) *config.Config {
	t.Helper()
	text := table.YAML()
	c, err := config.LoadBytes(filepath.Join(t.TempDir(), "lockstep.yaml"), []byte(text), config.Options{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if len(c.Set.Jobs) != len(table.Jobs) {
		t.Fatalf("%d jobs of %d in\n%s", len(c.Set.Jobs), len(table.Jobs), text)
	}
	return c
}

// A whole file, with all syntax of cron.
func TestGolden(t *testing.T) {
	for name, o := range map[string]Options{
		"user":   {Source: "user.cron", Timezone: "Europe/London"},
		"system": {Source: "system.cron", System: true, Timezone: "UTC"},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", name+".cron"))
			if err != nil {
				t.Fatal(err)
			}
			table := Read(string(data), o)
			load(t, table)
			golden := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(golden, []byte(table.YAML()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), table.YAML()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// What is left out, and why.
func TestLeftOut(t *testing.T) {
	for line, reason := range map[string]string{
		"@reboot /opt/x":        "@reboot",
		"@every 5m /opt/x":      "@every is unknown",
		"* * * * *":             "no command",
		"* * * *":               "4 fields",
		"hello world a b c d":   "neither sets a variable nor starts with a minute",
		"60 * * * * x":          "minute: \"60\"",
		"*/0 * * * * x":         "the step",
		"1/5 * * * * x":         "1-59/5",
		"* 22-2 * * * x":        "descending",
		"* * * * FRI-MON x":     "descending",
		"0 0 31 2 * x":          "never fire",
		"0 0 */2 * 1 x":         "",                                                                                                            // both, in cron and here
		"0 0 */40 * 1 x":        `day of month: "*/40": step 40 is larger than the range, so only 1 would be left; write 1, or a smaller step`, // 1 would be either
		"0 0 1 * */9 x":         `day of week: "*/9": step 9 is larger`,
		"*/90 2 * * * x":        `minute: "*/90": step 90 is larger`, // 0 would be fixed where clocks jump
		"0 0 */40 * * x":        "",
		"0 0 */40 * */2 x":      "",
		"0 0 */40 * 0-6 x":      "",
		"*/90 */2 * * * x":      "",
		"0 0 *,5 * */2 x":       "", // *,5 is every day
		"0 0 1 * *,1 x":         "", // so is *,1 of weekdays, but it starts with *
		"5~50 * * * * x":        "minute",
		"* * * * * %input only": "no command",
		"LOCKSTEP_JOB=x":        "LOCKSTEP_JOB",
		"a-b=c":                 "a-b",
		"* * * * * caf\xe9":     "UTF-8",
		"* * * * 8 x":           "day of week",
		"SHELL=/usr/bin/fish\n* * * * * cat%hello": "/usr/bin/fish",
		"CRON_TZ=Mars/X\n* * * * * x":              "CRON_TZ in line 1: ",
	} {
		table := Read(line+"\n", Options{})
		load(t, table)
		text := ""
		for _, r := range table.LeftOut {
			text += r.Text
		}
		if reason == "" && len(table.Jobs) == 1 && text == "" {
			continue
		}
		if reason == "" || !strings.Contains(text, reason) || len(table.Jobs) > 0 {
			t.Errorf("%q: left out for %q, want %q; jobs %v", line, text, reason, table.Jobs)
		}
	}
}

// One bad line costs that line.
func TestTheRestIsKept(t *testing.T) {
	table := Read("@reboot a\n5 4 * * * /bin/b\nnonsense\n", Options{})
	if len(table.Jobs) != 1 || table.Jobs[0].Name != "b" || len(table.LeftOut) != 2 || table.LeftOut[1].Line != 3 {
		t.Errorf("%+v", table)
	}
}

// System files have a user name before the command.
func TestUserColumn(t *testing.T) {
	table := Read("17 * * * *\troot    cd / && run-parts --report /etc/cron.hourly\n@daily backup /opt/b\n* * * * * alone\n", Options{System: true})
	if len(table.Jobs) != 2 || table.Jobs[0].User != "root" || table.Jobs[0].Shell != "cd / && run-parts --report /etc/cron.hourly" || table.Jobs[1].User != "backup" {
		t.Errorf("%+v", table.Jobs)
	}
	if len(table.LeftOut) != 1 || !strings.Contains(table.LeftOut[0].Text, "no command") {
		t.Errorf("%+v", table.LeftOut)
	}
	if c := load(t, table); c.Set.Jobs["run-parts"].Labels["user"] != "root" {
		t.Errorf("%+v", c.Set.Jobs)
	}
}

// A variable applies to the lines below it, and is not interpolated.
func TestVariables(t *testing.T) {
	table := Read(`* * * * * first
A = "x y"
 B='it''s $HOME'
EMPTY=
* * * * * second
A=z
CRON_TZ=Asia/Tokyo
* * * * * third
`, Options{})
	want := [][]Variable{nil, {{"A", "x y"}, {"B", "it''s $HOME"}, {"EMPTY", ""}}, {{"B", "it''s $HOME"}, {"EMPTY", ""}, {"A", "z"}}}
	for i, j := range table.Jobs {
		if !slices.Equal(j.Env, want[i]) {
			t.Errorf("%s has %q", j.Name, j.Env)
		}
	}
	c := load(t, table)
	if zone := c.Set.Jobs["third"].Timezone; zone != "Asia/Tokyo" {
		t.Errorf("CRON_TZ became %q", zone)
	}
	if c.Set.Jobs["second"].Timezone != "" && c.Set.Jobs["second"].Timezone != "UTC" {
		t.Errorf("CRON_TZ reached the line above it: %q", c.Set.Jobs["second"].Timezone)
	}
}

// Text after % is standard input, as from cron.
func TestPercent(t *testing.T) {
	for command, want := range map[string]string{
		`cat`:                           "",
		`cat%one%two`:                   "one\ntwo\n",
		`cat%one%two%`:                  "one\ntwo\n",
		`cat%`:                          "\n",
		`echo 100\% sure`:               "100% sure\n",
		`printf '\%s-\%s' a b`:          "a-b",
		`cat%END%$HOME \% "q" ` + "`x`": "END\n$HOME % \"q\" `x`\n",
		`cat # the rest%x`:              "x\n",
		`tr a-z A-Z | cat%shout`:        "SHOUT\n",
	} {
		table := Read("* * * * * "+command+"\n", Options{})
		if len(table.Jobs) != 1 {
			t.Fatalf("%s: %+v", command, table.LeftOut)
		}
		load(t, table)
		out, err := exec.Command("/bin/sh", "-c", table.Jobs[0].Shell).Output()
		if err != nil || string(out) != want {
			t.Errorf("%s: %q, %v; want %q", command, out, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	for command, want := range map[string]string{
		"/opt/backup.sh --full":                                              "backup",
		"cd /srv/app && php artisan schedule:run >> /dev/null":               "artisan",
		"/usr/bin/python3 -u /opt/etl/load.py":                               "load",
		"A=1 B=2 nice -n 19 ionice -c3 /usr/bin/updatedb":                    "updatedb",
		"test -x /usr/sbin/anacron || ( cd / && run-parts /etc/cron.daily )": "run-parts",
		"[ -x /usr/lib/php/sessionclean ] && /usr/lib/php/sessionclean":      "sessionclean",
		"!!!":                    "job",
		"日本":                     "job",
		"sh":                     "sh",
		"flock -n /tmp/l /opt/x": "l", // no knowledge of each program's options
		strings.Repeat("a", 200): strings.Repeat("a", longestName),
	} {
		table := Read("* * * * * "+command+"\n", Options{})
		if len(table.Jobs) != 1 || table.Jobs[0].Name != want {
			t.Errorf("%s: %+v, want %s", command, table.Jobs, want)
		}
	}
	table := Read("1 * * * * /a/x\n2 * * * * /b/X\n3 * * * * /c/x-2\n", Options{})
	if got := []string{table.Jobs[0].Name, table.Jobs[1].Name, table.Jobs[2].Name}; !slices.Equal(got, []string{"x", "X-2", "x-2-2"}) {
		t.Errorf("names %v", got)
	}
	load(t, table)
}

// Reading any file ends without a panic, and the result loads with every job.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"user", "system"} {
		data, err := os.ReadFile(filepath.Join("testdata", name+".cron"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data), name == "system")
	}
	f.Add("* * * * * null\n* * * * * ~\nA=${B}\n* * * * * cat% a%\tb\n", false)
	f.Add("#  \u2028x\n0-6/2,* 1-2/9 31 feb-DEC/2 7 \"'\\%\x7f\n", true)
	f.Fuzz(func(t *testing.T, text string, system bool) {
		if len(text) > 10_000 {
			return
		}
		table := Read(text, Options{System: system, Timezone: "Europe/London", Source: text})
		c, err := config.LoadBytes("lockstep.yaml", []byte(table.YAML()), config.Options{})
		if err != nil {
			t.Fatalf("%v in\n%s", err, table.YAML())
		}
		if len(c.Set.Jobs) != len(table.Jobs) {
			t.Fatalf("%d jobs of %d", len(c.Set.Jobs), len(table.Jobs))
		}
	})
}
