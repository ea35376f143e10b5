package store

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// A page ends by what its tasks take in JSON, where some letters take more than one byte.
func TestPagesAreMeasuredInJSON(t *testing.T) {
	for c := range byte(0x80) {
		if c == '\b' || c == '\f' { // two bytes, which is near enough
			continue
		}
		text := strings.Repeat(string(rune(c)), 3)
		written, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		want := len(written) - len(`""`)
		if got := inJSON(text); got != want {
			t.Errorf("%q takes %d bytes, want %d", text, got, want)
		}
		of := func(task jobs.Task) int { return sizeOfTask(task) - sizeOfTask(jobs.Task{}) }
		for name, got := range map[string]int{
			"payload": of(jobs.Task{Payload: []byte(text)}), "error": of(jobs.Task{Error: text}), "reason": of(jobs.Task{Reason: text}),
			"who made it": of(jobs.Task{By: text}), "a tag": of(jobs.Task{Tags: []string{text}}), "two tags": of(jobs.Task{Tags: []string{text, text}}) / 2,
		} {
			if got != want {
				t.Errorf("%q as %s counts %d, want %d", text, name, got, want)
			}
		}
	}
}
