package httphandler

import (
	"cmp"
	"errors"
	"html"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// leastPart is how long a part of a secret must be to be taken out by itself: without a limit, hiding
// ?page=1 would take each 1 out of the answer.
const leastPart = 6

// hidden takes what the URL has in secret out of what a server says: servers repeat the path and the query
// in reason phrases and in their answers, whole or in parts.
type hidden struct {
	replacer *strings.Replacer
	longest  int
}

func hide(u *url.URL, path bool) hidden {
	var all []string
	add := func(least int, forms ...string) {
		for _, form := range forms {
			if len(form) >= least {
				all = append(all, form)
			}
		}
	}
	if path && strings.Trim(u.Path, "/") != "" {
		for _, whole := range []string{u.EscapedPath(), u.Path} {
			add(2, whole, strings.ReplaceAll(whole, "/", `\/`), html.EscapeString(whole))
			add(leastPart, strings.Split(whole, "/")...)
		}
	}
	if u.RawQuery != "" {
		add(2, u.RawQuery, html.EscapeString(u.RawQuery), strings.ReplaceAll(u.RawQuery, "&", `\u0026`))
		for _, pair := range strings.Split(u.RawQuery, "&") {
			_, value, _ := strings.Cut(pair, "=")
			add(leastPart, value)
			if plain, err := url.QueryUnescape(value); err == nil {
				add(leastPart, plain)
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	var h hidden
	if len(all) > 0 {
		h.longest = len(all[0])
	}
	pairs := make([]string, 0, 2*len(all))
	for _, form := range slices.Compact(all) {
		pairs = append(pairs, form, "…")
	}
	h.replacer = strings.NewReplacer(pairs...)
	return h
}

// text is what may be shown of what a server said.
func (h hidden) text(said string) string { return h.replacer.Replace(said) }

// error is err with a text that may be shown.
func (h hidden) error(err error) error {
	if shown := h.text(err.Error()); shown != err.Error() {
		return retold{err, shown}
	}
	return err
}

// retold is an error in other words.
type retold struct {
	error
	text string
}

func (r retold) Error() string { return r.text }
func (r retold) Unwrap() error { return r.error }

// cutMark ends an output that is not the whole answer.
const cutMark = "\n[cut here: the answer is longer than 64 KiB]\n"

// copy writes what may be shown of an answer's body: MaxOutput bytes at most, with cutMark at the end where
// there is more. What arrived before an error is written, too.
func (h hidden) copy(out io.Writer, body io.Reader) error {
	var said strings.Builder
	_, err := io.CopyN(&said, body, int64(MaxOutput+h.longest+1))
	text, whole := said.String(), errors.Is(err, io.EOF)
	if !whole { // what it ends with may be the beginning of a secret
		text = text[:max(len(text)-h.longest, 0)]
	}
	text = h.text(text)
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
