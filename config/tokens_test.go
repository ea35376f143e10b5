package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/config"
)

const (
	sumA = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	sumB = "cb8379ac2098aa165029e3938a51da0bcecfc008fd6795f401178647f96c5b34"
)

// Every wrong list is refused at its position, with what to do; no secret is shown.
func TestBadTokens(t *testing.T) {
	good := "- {name: a, role: admin, sha256: " + sumA + "}\n"
	for text, want := range map[string]string{
		"":                       `tokens.yaml: the file is empty`,
		"# nobody\n":             `tokens.yaml: the file is empty`,
		"[]\n":                   `tokens.yaml:1:1: has no tokens, and every request would be refused; "scheduler token create --file" adds one`,
		"name: a\n":              `tokens.yaml:1:1: must be a list of tokens; lines that start with "- "; "scheduler token create --file" writes them`,
		good + "- a\n":           `tokens.yaml:2:3: [1]: must be a map; write "key: value" lines below it`,
		good + "- {}\n":          "tokens.yaml:2:3: [1]: has no name\ntokens.yaml:2:3: [1]: has no role\ntokens.yaml:2:3: [1]: has no sha256",
		good + good:              `tokens.yaml:2:3: [1]: has the sha256 of line 1; remove one of them`,
		good + "---\n" + good:    `tokens.yaml:2:1: a second YAML document; one file holds one document; use include for more files`,
		good[:len(good)-4] + "}": `tokens.yaml:1:34: [0].sha256: is not a SHA-256; 64 hexadecimal digits; never put the token itself here`,
		good[:len(good)-10]:      `tokens.yaml:2:1: the map that starts here is not closed, or lacks a comma`,
		"- {name: a, role: boss, sha256: " + sumA + "}":                       `tokens.yaml:1:19: [0].role: "boss" is unknown; allowed: viewer, operator, admin, worker`,
		"- {name: a, role: Admin, sha256: " + sumA + "}":                      `tokens.yaml:1:19: [0].role: "Admin" is unknown; did you mean "admin"?`,
		"- {name: \"a b\", role: admin, sha256: " + sumA + "}":                `tokens.yaml:1:10: [0].name: is not a name; up to 64 of a-z A-Z 0-9 . _ -, the first a letter or digit`,
		"- {name: a, role: admin, sha256: lockstep_hunter2hunter2}":           `tokens.yaml:1:34: [0].sha256: is not a SHA-256; 64 hexadecimal digits; never put the token itself here`,
		"- {name: a, role: admin, token: hunter2, sha256: " + sumA + "}":      `tokens.yaml:1:26: [0].token: unknown key; keys here are expires, name, pools, role, sha256`,
		"- {name: a, role: admin, sha256: " + sumA + ", expires: 2027-01-31}": `tokens.yaml:1:109: [0].expires: "2027-01-31" is not a time; write it as in 2027-01-31T00:00:00Z, or leave it out`,
		"- {name: a, role: admin, sha256: " + sumA + ", expires: 90d}":        `tokens.yaml:1:109: [0].expires: "90d" is not a time; write it as in 2027-01-31T00:00:00Z, or leave it out`,
		"- {name: a, role: worker, sha256: " + sumA + "}":                     `tokens.yaml:1:3: [0]: has the role worker and no pools; name those that it may take tasks of, as in pools: [mail]`,
		"- {name: a, role: worker, pools: [], sha256: " + sumA + "}":          `tokens.yaml:1:3: [0]: has the role worker and no pools; name those that it may take tasks of, as in pools: [mail]`,
		"- {name: a, role: admin, pools: [mail], sha256: " + sumA + "}":       `tokens.yaml:1:33: [0]: pools are for the role worker; remove them, or write role: worker`,
		"- {name: a, role: worker, pools: [\"a b\"], sha256: " + sumA + "}":   `tokens.yaml:1:35: [0].pools[0]: is not the name of a pool; up to 64 of a-z A-Z 0-9 . _ -, the first a letter or digit`,
		"- {name: a, role: admin, role: viewer, sha256: " + sumA + "}":        `tokens.yaml:1:26: the key "role" is given twice; first at line 1`,
		"- {name: \"${USER}\", role: admin, sha256: " + sumA + ", expires: }": "tokens.yaml:1:10: [0].name: is not a name; up to 64 of a-z A-Z 0-9 . _ -, the first a letter or digit\ntokens.yaml:1:117: [0].expires: has no value; remove the key, or write \"\"",
	} {
		list, err := config.ParseTokens("tokens.yaml", []byte(text))
		if err == nil {
			t.Errorf("%q is accepted: %v", text, list)
			continue
		}
		if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("%q (-want +got)\n%s", text, diff)
		}
		none := text == "" || text[0] == '#' || text == "[]\n"
		if all, ok := errors.AsType[config.Errors](err); !ok || len(all) == 0 || errors.Is(err, config.ErrNoTokens) != none {
			t.Errorf("%q: %v, is ErrNoTokens: %v", text, all, !none)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: shows a secret", text)
		}
	}
}

func TestTokenFile(t *testing.T) {
	folder := t.TempDir()
	text := "# ours\n- {name: ci, role: operator, sha256: \"" + sumA + "\"}\n" +
		"- name: ci # the next one\n  role: operator\n  sha256: " + strings.ToUpper(sumB) + "\n  expires: 2027-01-31T01:00:00+01:00\n  x-ticket: 12\n"
	list, err := config.LoadTokens(write(t, folder, "good", text, 0o644))
	if err != nil || len(list) != 2 || list[0].Role != api.Operator || !list[0].Expires.IsZero() || !list[1].Expires.Equal(time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v, %v", list, err)
	}
	writable := write(t, folder, "writable", text, 0o662)
	if _, err := config.LoadTokens(writable); err == nil || err.Error() != writable+": can be written by others (mode 0662); chmod 600 "+writable {
		t.Error(err)
	}
	for _, path := range []string{filepath.Join(folder, "none"), folder} {
		if _, err := config.LoadTokens(path); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
			t.Error(err)
		}
	}
}

// Output of token create is readable, after any previous content.
func TestAddToken(t *testing.T) {
	expires := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)
	_, first := api.NewToken("no", api.Viewer, time.Time{}) // a name that YAML might take for something else
	_, second := api.NewToken("1.5", api.Admin, expires)
	data, err := config.AddToken("t", nil, first)
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range [][]byte{data, data[:len(data)-1], append([]byte("---\n"), data...)} {
		after, err := config.AddToken("t", before, second)
		if err != nil {
			t.Fatal(err)
		}
		list, err := config.ParseTokens("t", slices.Concat(before, after))
		if diff := cmp.Diff([]api.Token{first, second}, list); diff != "" || err != nil {
			t.Errorf("%v %s\n%s", err, diff, after)
		}
	}
	inline := []byte("[{name: a, role: admin, sha256: " + sumA + "}]\n")
	if _, err := config.AddToken("t", inline, second); err == nil || !strings.Contains(err.Error(), config.TokenLine(second)) {
		t.Error(err)
	}
	if _, err := config.AddToken("t", []byte("- {}\n"), second); err == nil || !strings.Contains(err.Error(), "has no name") {
		t.Error(err)
	}
	if _, err := os.Stat("t"); err == nil {
		t.Error("a file was made")
	}
}
