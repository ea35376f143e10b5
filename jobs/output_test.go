package jobs

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
)

func TestFileOf(t *testing.T) {
	task := Task{ID: "0197-id", Job: "nightly.backup", Pool: "mail", Attempt: 2, Replica: "host-1"}
	for file, want := range map[string]string{
		"":                  "",
		"/var/log/all.log":  "/var/log/all.log",
		"logs/{{.job}}.log": "logs/nightly.backup.log",
		"{{ .pool }}/{{.kind}}/{{.task}}.{{.attempt}}-{{.replica}}": "mail/-/0197-id.2-host-1",
		"{{.job}}{{.job}}": "nightly.backupnightly.backup",
	} {
		if got := (Output{File: file}).FileOf(task); got != want {
			t.Errorf("%s is %s, want %s", file, got, want)
		}
	}
}

// Whatever a task is called, its file is in the folder that the definition names.
func TestFilesStayInTheirFolder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	parts := []string{"..", ".", "/", "\\", "a", "\x00", "é", "{{.job}}", "-", "~", "\n", " "}
	odd := func() string {
		var b strings.Builder
		for range rnd.IntN(6) {
			b.WriteString(parts[rnd.IntN(len(parts))])
		}
		return b.String()
	}
	for range 5000 {
		task := Task{ID: odd(), Job: odd(), Pool: odd(), Kind: odd(), Replica: odd()}
		for _, field := range []string{"job", "pool", "kind", "task", "replica"} {
			got := Output{File: "/logs/{{." + field + "}}"}.FileOf(task)
			if filepath.Dir(filepath.Clean(got)) != "/logs" || strings.ContainsAny(got[6:], "/\x00\n") || got[6] == '.' {
				t.Fatalf("%s of %+v is %q", field, task, got)
			}
		}
	}
}

func TestOutputsAreChecked(t *testing.T) {
	for want, o := range map[string]Output{
		"": {Keep: 1 << 10, File: "logs/{{ .job }}-{{.replica}}.log", FileSize: 1 << 30, Files: 1000},
		"jobs.a.output.keep: 1023 bytes are out of range 1024–4194304":                                        {Keep: 1023},
		"jobs.a.output.keep: 4194305 bytes":                                                                   {Keep: 4<<20 + 1},
		"jobs.a.output.file_size: 4095 bytes are out of range 4096–1073741824":                                {File: "x", FileSize: 4095},
		"jobs.a.output.files: 1001 is out of range 1–1000":                                                    {File: "x", Files: 1001},
		"jobs.a.output.file: has {{.payload}}, which is not known; known are {{.job}}":                        {File: "x{{.payload}}"},
		`jobs.a.output.file: "x{{job}}" has something else in {{ }} than a field; write it as in jobs/{{.job`: {File: "x{{job}}"},
		`jobs.a.output.file: "x}}" has something else`:                                                        {File: "x}}"},
		`jobs.a.output.file: "logs/" is no file`:                                                              {File: "logs/"},
		`jobs.a.output.file: "a\x00" is no file`:                                                              {File: "a\x00"},
	} {
		err := Set{Jobs: map[string]Job{"a": {Schedule: "@daily", Handler: says("h"), Output: o}}}.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	err := Set{
		Pools: map[string]Pool{"p": {Handler: Worker{}, Output: Output{Keep: 2048, File: "x"}}},
		Jobs:  map[string]Job{"a": {Schedule: "@daily", Pool: "p", Output: Output{File: "x"}}},
	}.Validate()
	if err == nil || !strings.Contains(err.Error(), "pools.p.output.file: is on the replica") || !strings.Contains(err.Error(), "jobs.a.output.file: is on the replica") || strings.Contains(err.Error(), "keep") {
		t.Errorf("of workers: %v", err)
	}
}
