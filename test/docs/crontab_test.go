package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/config/crontab"
)

var zone = regexp.MustCompile(`(?m)^  timezone: (\S+)`)

// Every crontab of a page can be imported completely, and the result loads. YAML that comes next on the page is that
// result.
func TestCrontab(t *testing.T) {
	for _, file := range pages(t) {
		all := blocks(t, file)
		for i, b := range all {
			if b.language != "crontab" || b.notRun != "" {
				continue
			}
			o := crontab.Options{Timezone: "UTC", Source: "crontab.txt"} // as the pages name it
			if i+1 < len(all) && all[i+1].language == "yaml" {
				if m := zone.FindStringSubmatch(all[i+1].body); m != nil {
					o.Timezone = m[1]
				}
				if got := crontab.Read(b.body, o).YAML(); !strings.HasSuffix(got, all[i+1].body) {
					t.Errorf("%s: this is what becomes of it:\n%s", all[i+1].at(), got)
				}
			}
			table := crontab.Read(b.body, o)
			for _, r := range table.LeftOut {
				t.Errorf("%s: line %d: left out: %s", b.at(), r.Line, r.Text)
			}
			if problems := load(table.YAML()); len(problems) > 0 || len(table.Jobs) == 0 {
				t.Errorf("%s: %d jobs, %v", b.at(), len(table.Jobs), problems)
			}
		}
	}
}
