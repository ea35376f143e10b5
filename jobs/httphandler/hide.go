package httphandler

import (
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// leastPart is how long a part of a secret must be to be removed by itself, and to be matched without regard to
// case: without a limit, hiding ?page=1 would remove each 1 of the answer.
const leastPart = 6

// hidden removes the secrets of a request from the texts of a server: servers repeat the path, the query and
// headers in reason phrases and in answers, whole or in parts, and escaped in their own way. It looks for
// secrets in the text and in the text with its escapes undone, see [layer].
type hidden struct {
	exact, folded []string // what to look for: folded are those from leastPart on
	longest       int      // how long a secret may be in a text
}

func hide(u *url.URL, path bool, headers map[string]string) hidden {
	var h hidden
	if path && strings.Trim(u.Path, "/") != "" {
		for _, whole := range []string{u.EscapedPath(), u.Path} {
			h.add(2, whole)
			h.add(leastPart, strings.Split(whole, "/")...)
		}
	}
	h.add(2, u.RawQuery)
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if value == "" { // a secret without a name looks the same
			value = name
		}
		h.add(leastPart, value)
	}
	for name, value := range headers {
		h.add(leastPart, secretsOf(name, value)...)
	}
	for _, list := range []*[]string{&h.exact, &h.folded} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return h
}

// add adds secrets, as they are and with their escapes undone, if that leaves at least so many bytes.
func (h *hidden) add(least int, secrets ...string) {
	for _, secret := range secrets {
		for l, last := range layers(secret) {
			if len(l.text) < least {
				break
			}
			h.longest = max(h.longest, 2*len(secret)) // %XX may come as %25XX
			if last {
				h.longest = max(h.longest, widest*len(l.text))
			}
			if len(l.text) < leastPart {
				h.exact = append(h.exact, l.text)
			} else {
				h.folded = append(h.folded, fold(l.text))
			}
		}
	}
}

// text is what may be shown of a text of a server.
func (h hidden) text(said string) string { return h.first(said, len(said)) }

// first is what may be shown of the first n bytes of a text. A secret that goes beyond them is found, too. It
// takes time in proportion to the length of the text.
func (h hidden) first(said string, n int) string {
	if len(h.exact)+len(h.folded) == 0 {
		return said[:n]
	}
	secret := make([]bool, len(said))
	for l := range layers(said) {
		for _, form := range h.exact {
			l.mark(l.text, form, secret)
		}
		folded := fold(l.text)
		for _, form := range h.folded {
			l.mark(folded, form, secret)
		}
	}
	if !slices.Contains(secret, true) {
		return said[:n]
	}
	var shown strings.Builder
	for i := range n {
		switch {
		case !secret[i]:
			shown.WriteByte(said[i])
		case i == 0 || !secret[i-1]:
			shown.WriteString("…")
		}
	}
	return shown.String()
}

// retold is an error with a text that may be shown.
type retold struct {
	error
	text string
}

func (r retold) Error() string { return r.text }
func (r retold) Unwrap() error { return r.error }

// cutMark ends an output that is not the whole answer.
const cutMark = "\n[cut here: the answer is longer than 64 KiB]\n"

// copy writes what may be shown of an answer's body: at most MaxOutput bytes, with cutMark at the end if there
// is more. What arrived before an error is written, too.
func (h hidden) copy(out io.Writer, body io.Reader) error {
	var said strings.Builder
	_, err := io.CopyN(&said, body, int64(MaxOutput+h.longest+1))
	whole, n := errors.Is(err, io.EOF), said.Len()
	if !whole { // its end may be the beginning of a secret
		n = max(n-h.longest, 0)
	}
	text := h.first(said.String(), n)
	if err == nil || len(text) > MaxOutput {
		end := min(len(text), MaxOutput-len(cutMark))
		for back := 1; back < utf8.UTFMax && end < len(text) && !utf8.RuneStart(text[end]); back++ {
			end--
		}
		text = text[:end] + cutMark
	}
	if _, failed := io.WriteString(out, text); err == nil || whole {
		return failed
	}
	return err
}
