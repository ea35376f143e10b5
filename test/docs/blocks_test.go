package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the module's folder, seen from this package's.
const root = "../.."

// block is one fenced code block of a page.
type block struct {
	file     string // from the module's folder
	line     int    // of the opening fence
	language string // the first word behind it
	body     string
	notRun   string // the reason that "<!-- not run: … -->" above the block gives
	under    string // "<!-- under: jobs.backup -->": where in a configuration a piece of YAML belongs
	before   string // "<!-- before: … -->": shell lines to run first, which readers need not see
}

func (b block) at() string { return fmt.Sprintf("%s:%d", b.file, b.line) }

var (
	opening   = regexp.MustCompile("^( *)(```+)[ \t]*([^`]*)$")
	remark    = regexp.MustCompile(`(?s)<!--\s*(not run|under|before):\s*(.*?)\s*-->`)
	remarkEnd = regexp.MustCompile(`-->\s*$`)
)

// blocks returns the fenced blocks of a page in their order.
func blocks(t *testing.T, file string) []block {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return cut(t, file, string(data))
}

func cut(t *testing.T, file, text string) (all []block) {
	t.Helper()
	lines := strings.Split(text, "\n")
	remarks := 0 // where the comments that belong to the next block may start
	for i := 0; i < len(lines); i++ {
		m := opening.FindStringSubmatch(lines[i])
		if m == nil {
			// Only comments and empty lines may stand between a comment and its block.
			if line := strings.TrimSpace(lines[i]); line != "" && !remarkEnd.MatchString(line) && !inComment(lines, remarks, i) {
				remarks = i + 1
			}
			continue
		}
		b := block{file: file, line: i + 1, language: strings.ToLower(strings.TrimSpace(m[3]))}
		b.language, _, _ = strings.Cut(b.language, " ")
		for _, m := range remark.FindAllStringSubmatch(strings.Join(lines[remarks:i], "\n"), -1) {
			switch m[1] {
			case "not run":
				b.notRun = strings.Join(strings.Fields(m[2]), " ")
			case "under":
				b.under = m[2]
			case "before":
				b.before = m[2]
			}
		}
		closed := slices.IndexFunc(lines[i+1:], func(line string) bool { return strings.TrimSpace(line) == m[2] })
		if closed < 0 {
			t.Fatalf("%s: the block is not closed", b.at())
		}
		for _, line := range lines[i+1 : i+1+closed] {
			b.body += strings.TrimPrefix(line, m[1]) + "\n"
		}
		all = append(all, b)
		i += 1 + closed
		remarks = i + 1
	}
	return all
}

// inComment reports whether line i is inside of a comment that starts at line from or later.
func inComment(lines []string, from, i int) bool {
	before := strings.Join(lines[from:i+1], "\n")
	return strings.Count(before, "<!--") > strings.Count(before, "-->")
}

// pages are the files whose blocks run: the README, and everything below the folders of documents.
func pages(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(markdown(t), func(file string) bool {
		folder, _, below := strings.Cut(file, "/")
		return file != "README.md" && (!below || folder != "docs" && folder != "deploy" && folder != "examples")
	})
}

// markdown are all documents of the module.
func markdown(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin"):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".md"):
			file, err := filepath.Rel(root, path)
			files = append(files, filepath.ToSlash(file))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(files, "README.md") || !slices.Contains(files, "docs/decisions.md") {
		t.Fatalf("found %v", files)
	}
	return files
}

// Every block is of a kind that some test runs, or says why it is not run.
func TestEveryBlockRuns(t *testing.T) {
	run := []string{"sh", "console", "yaml", "json", "crontab", "go", "promql"}
	for _, file := range pages(t) {
		for _, b := range blocks(t, file) {
			switch {
			case b.language == "":
				t.Errorf("%s: name the block's language; text is for what is neither code nor data", b.at())
			case b.language == "text" || slices.Contains(run, b.language):
			case b.notRun == "":
				t.Errorf("%s: nothing runs a block of %s; put <!-- not run: the reason --> above it", b.at(), b.language)
			}
			if b.notRun != "" && len(b.notRun) < 10 {
				t.Errorf("%s: %q is no reason", b.at(), b.notRun)
			}
		}
	}
}

// What surrounds a block is read as it is meant.
func TestCut(t *testing.T) {
	text := "# A\n```sh\none\n```\n\n<!-- not run: needs an engine -->\n<!-- under: jobs.a -->\n\n```yaml\na:\n  b\n```\n" +
		"<!-- before:\necho x\n\necho y\n-->\n```sh title\ntwo\n```\n\n<!-- not run: no -->\ntext\n\n- item\n  ```json\n  {}\n  ```\n````text\n```\n````\n"
	got := cut(t, "a.md", text)
	want := []block{
		{file: "a.md", line: 2, language: "sh", body: "one\n"},
		{file: "a.md", line: 9, language: "yaml", body: "a:\n  b\n", notRun: "needs an engine", under: "jobs.a"},
		{file: "a.md", line: 18, language: "sh", body: "two\n", before: "echo x\n\necho y"},
		{file: "a.md", line: 26, language: "json", body: "{}\n"},
		{file: "a.md", line: 29, language: "text", body: "```\n"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}
