package jobs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
)

// Output says what becomes of what attempts write. The zero Output keeps what the replica keeps, and has no file.
type Output struct {
	// Keep is how many bytes of each attempt the store keeps, the first and the last half of them: 1 KiB … 4 MiB; default: the replica's, 64 KiB.
	Keep int `json:",omitempty"`
	// File is a file of the replica that runs the attempt, which gets all of its output: "/var/log/jobs/{{.job}}.log". {{.job}}, {{.pool}}, {{.kind}}, {{.task}},
	// {{.attempt}} and {{.replica}} are what they say, with _ in place of characters that names do not have; - where there is none. So none of them is another folder.
	File     string `json:",omitempty"`
	FileSize int    `json:",omitempty"` // bytes of File at which it becomes File.1, that becomes File.2, and so on: 4 KiB … 1 GiB; default 10 MiB
	Files    int    `json:",omitempty"` // how many of these are kept beside File, 1 … 1000; default 5
}

const (
	defaultFileSize = 10 << 20
	defaultFiles    = 5
)

func (o Output) withDefaults() Output {
	if o.FileSize == 0 {
		o.FileSize = defaultFileSize
	}
	if o.Files == 0 {
		o.Files = defaultFiles
	}
	return o
}

// hashed is o without what is written and is the default.
func (o Output) hashed() Output {
	if o.Keep == limits.KeptOutput {
		o.Keep = 0
	}
	if o.FileSize == defaultFileSize {
		o.FileSize = 0
	}
	if o.Files == defaultFiles {
		o.Files = 0
	}
	return o
}

var (
	fileFields = regexp.MustCompile(`\{\{\s*\.(\w+)\s*\}\}`)
	notInNames = regexp.MustCompile(`[^a-zA-Z0-9._-]`)
)

// FileOf is the File of a task's attempt, "" if there is none.
func (o Output) FileOf(t Task) string {
	return fileFields.ReplaceAllStringFunc(o.File, func(field string) string {
		value := map[string]string{
			"job": t.Job, "pool": t.Pool, "kind": t.Kind, "task": t.ID, "attempt": strconv.Itoa(t.Attempt), "replica": t.Replica,
		}[fileFields.FindStringSubmatch(field)[1]]
		if value == "" {
			return "-"
		}
		value = notInNames.ReplaceAllString(value, "_")
		if value[0] == '.' { // no hidden file, and no other folder
			value = "_" + value[1:]
		}
		return value
	})
}

// outputOf checks what becomes of outputs.
func (p *problems) outputOf(path string, o Output) {
	path += ".output"
	size := func(key string, n, least, most int) {
		if n != 0 && (n < least || n > most) {
			p.add(path+"."+key, "%d bytes are out of range %s", n, fmt.Sprintf("%d–%d", least, most))
		}
	}
	size("keep", o.Keep, limits.LeastOutput, limits.Output)
	size("file_size", o.FileSize, limits.LeastOutputFile, limits.OutputFile)
	if o.Files != 0 {
		p.within(path+".files", o.Files, 1, limits.OutputFiles)
	}
	for _, field := range fileFields.FindAllStringSubmatch(o.File, -1) {
		switch field[1] {
		case "job", "pool", "kind", "task", "attempt", "replica":
		default:
			p.add(path+".file", "has {{.%s}}, which is not known; known are {{.job}}, {{.pool}}, {{.kind}}, {{.task}}, {{.attempt}} and {{.replica}}", field[1])
		}
	}
	switch plain := fileFields.ReplaceAllString(o.File, "x"); {
	case strings.Contains(plain, "{{") || strings.Contains(plain, "}}"):
		p.add(path+".file", "%.80q has something else in {{ }} than a field; write it as in jobs/{{.job}}.log", o.File)
	case strings.ContainsRune(plain, 0) || strings.HasSuffix(plain, "/"):
		p.add(path+".file", "%.80q is no file", o.File)
	}
}
