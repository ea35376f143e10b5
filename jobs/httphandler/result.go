package httphandler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// answered is what was shown of an answer's body. It is written to out as it comes, and kept.
type answered struct {
	out  io.Writer
	text strings.Builder
}

func (a *answered) WriteString(text string) (int, error) {
	a.text.WriteString(text)
	return io.WriteString(a.out, text)
}

func (a *answered) Write(p []byte) (int, error) { return a.WriteString(string(p)) }

// setResult makes the body of an answer the result of the task, if it is whole and its Content-Type is JSON. What is no JSON all the same is
// said in the output.
func setResult(t jobs.Task, r *http.Response, body *answered) error {
	text := body.text.String()
	if t.Reporter == nil || text == "" || !isJSON(r.Header.Get("Content-Type")) {
		return nil
	}
	if strings.HasSuffix(text, cutMark) {
		_, err := io.WriteString(body.out, "[the task has no result: the answer is longer than 64 KiB]\n")
		return err
	}
	if err := t.SetResult(json.RawMessage(text)); err != nil {
		_, err = fmt.Fprintf(body.out, "\n[the task has no result: the answer: %v]\n", err)
		return err
	}
	return nil
}

// lineShown is how much of an answer's line an error has, in bytes.
const lineShown = 200

// line is the first line of the body of an answer, for an error; of JSON the beginning of all in one line. "": it is no text for people, as a page of HTML is none.
func (a *answered) line(r *http.Response) string {
	said, contentType := a.text.String(), r.Header.Get("Content-Type")
	if isJSON(contentType) {
		var one bytes.Buffer
		if json.Compact(&one, []byte(said)) == nil {
			said = one.String()
		}
		return clip.FirstLine(said, lineShown)
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if contentType != "" && (err != nil || kind != "text/plain") || !utf8.ValidString(said) || strings.HasPrefix(strings.TrimSpace(said), "<") {
		return ""
	}
	return clip.FirstLine(strings.TrimSuffix(said, cutMark), lineShown)
}

// isJSON reports whether a Content-Type is application/json, or another one that is written in JSON, as application/problem+json.
func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json"))
}
