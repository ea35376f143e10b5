package config_test

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/config"
)

// Braces in a default come in pairs, so that none is left over.
func TestBracesInDefaults(t *testing.T) {
	for text, want := range map[string]string{
		"${A:-{}}": "{}", "${A:-{\"a\": {}}}": `{"a": {}}`, "x${A:-{}}y": "x{}y", "${B:-{}}": "set", "${A:-${B:-{}}}": "set",
		"${A:-${C:-{x}}}{}": "{x}{}", "${A:-a}}": "a}", "{${A:-}}": "{}",
	} {
		c, err := config.LoadBytes("lockstep.yaml", []byte("version: 1\nstore: {dsn: '"+text+"'}\njobs: {a: {command: [sh]}}\n"), config.Options{Environ: []string{"B=set"}})
		if err != nil || c.Store.DSN != want {
			t.Errorf("%s: %q, want %q; %v", text, c.Store.DSN, want, err)
		}
	}
}
