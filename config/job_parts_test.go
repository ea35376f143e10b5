package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/config"
)

// Jobs are read in parts, which nobody sees: all are there, and each problem is told once, in the order of the file.
func TestManyJobs(t *testing.T) {
	const n = 12_000
	file := func(wrong map[int]string) string {
		var b strings.Builder
		b.WriteString("version: 1\nx-labels: &labels {team: infra}\ndefaults: {retries: {on: [75]}}\njobs:\n")
		for i := range n {
			fmt.Fprintf(&b, "  job-%d: {command: [echo], labels: *labels, retries: {limit: %d}%s}\n", i, i%2, wrong[i])
		}
		return b.String()
	}
	c, err := config.LoadBytes("lockstep.yaml", []byte(file(nil)), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		job, has := c.Set.Jobs[fmt.Sprint("job-", i)]
		if !has || job.Labels["team"] != "infra" || len(job.Retries.On) != i%2 {
			t.Fatalf("job-%d is %+v, %t", i, job, has)
		}
	}
	wrong := map[int]string{3: ", timeout: soon", 11_000: ", timout: 1s", 5_001: ", schedule: '61 * * * *'", 11_999: ", pool: nowhere"}
	text := strings.Replace(file(wrong), "job-9000:", "JOB-10:", 1)
	text = strings.Replace(text, "{team: infra}", "{team: {a: b}}", 1)
	_, err = config.LoadBytes("lockstep.yaml", []byte(text), config.Options{})
	var bad config.Errors
	if !errors.As(err, &bad) {
		t.Fatal(err)
	}
	var lines []int
	for _, e := range bad {
		lines = append(lines, e.Line)
	}
	want := []int{2, 8, 5_006, 9_005, 11_005, 12_004}
	if fmt.Sprint(lines) != fmt.Sprint(want) {
		t.Errorf("problems at lines %v, want %v: %v", lines, want, err)
	}
}
