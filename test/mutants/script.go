package mutants

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// scripts adds the mutants of a package's embedded Lua scripts to those of its branches: each condition forced
// either way, each operand of and and or removed, each comparison moved by one or inverted, each statement
// removed that calls or assigns, each field that an HSET of several writes, and each argument of math.max. The
// text of one script is replaced in a run, where the package reads it. A server does not
// report which lines it reached: so all tests try these.
func (s *source) scripts(root, dir string) error {
	files, err := filepath.Glob(filepath.Join(root, dir, "*.lua"))
	if err != nil || len(files) == 0 {
		return err
	}
	slices.Sort(files)
	var changes strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file := filepath.Base(name)
		found, err := luaChanges(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		names := map[string]int{}
		for _, c := range found {
			what := fmt.Sprintf("%s %s LUA %s", path.Join(dir, file), c.function, c.what)
			if names[what]++; names[what] > 1 {
				what += fmt.Sprintf(" (%d)", names[what])
			}
			fmt.Fprintf(&changes, "\t\"%d\": {%q, %d, %d, %q},\n", len(s.mutants), file, c.start, c.end, c.text)
			s.mutants = append(s.mutants, mutant{name: what, line: c.line, script: true})
		}
	}
	embedded := 0
	for name, text := range s.files {
		embedded += len(reads.FindAllString(text, -1))
		s.files[name] = reads.ReplaceAllString(text, "$0\n$1 = []byte(mutantScript($2, string($1)))")
	}
	if embedded != 1 {
		return fmt.Errorf("%s reads its embedded scripts in %d places, not in one", dir, embedded)
	}
	pkg, _, _ := strings.Cut(s.files[path.Join(dir, "mutants_switch.go")], "\n")
	s.files[path.Join(dir, "mutants_scripts.go")] = pkg + replacing + "var mutantScripts = map[string]mutantChange{\n" + changes.String() + "}\n"
	return nil
}

// reads is where a package reads an embedded script.
var reads = regexp.MustCompile(`(\w+), (?:_|err) := files\.ReadFile\((.+)\)`)

const replacing = `

type mutantChange struct {
	file       string
	start, end int
	text       string
}

// mutantScript is the text of a script with its mistake, if it has one in this run.
func mutantScript(file, text string) string {
	if c := mutantScripts[mutantOn]; c.file == file {
		return text[:c.start] + c.text + text[c.end:]
	}
	return text
}

`
