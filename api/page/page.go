// Package page is the web page of a replica: live, a few static files. The files hold no data and need no access
// control; the page calls the API with the user's token. It changes nothing but tasks that failed for good, and cancels orders.
package page

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed *.html *.css *.js *.svg
var embedded embed.FS

// file is one of the page's files, shared by all responses.
type file struct {
	text []byte
	tag  string
}

var files = readFiles()

func readFiles() map[string]file {
	all := map[string]file{}
	entries, err := embedded.ReadDir(".")
	if err != nil {
		panic(err) // it is part of the program
	}
	for _, entry := range entries {
		text, err := embedded.ReadFile(entry.Name())
		if err != nil {
			panic(err)
		}
		all[entry.Name()] = file{text, fmt.Sprintf(`"%x"`, sha256.Sum256(text))}
	}
	return all
}

// policy allows the page its own files and its own server only. Text cannot become markup or code.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// kinds are the content types of /static/, by extension.
var kinds = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// Handler serves the page at /, /dead-letters and /jobs/{name}, and its files at /static/{file}. All links are
// relative, so that it can be mounted below a path which is stripped first.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dir, file := path.Split(r.URL.Path)
		kind, static := kinds[path.Ext(file)]
		switch {
		case dir == "/static/" && static:
		case dir == "/" && file == "":
			file, kind = "index.html", "text/html; charset=utf-8"
		case dir == "/" && file == "dead-letters":
			file, kind = "dead.html", "text/html; charset=utf-8"
		case dir == "/jobs/" && file != "":
			file, kind = "job.html", "text/html; charset=utf-8"
		default:
			http.NotFound(w, r)
			return
		}
		serve(w, r, file, kind)
	})
}

// serve sends a file, or "not changed". A new binary's page is loaded at once. Responses share the file's bytes.
func serve(w http.ResponseWriter, r *http.Request, name, kind string) {
	f, ok := files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.tag)
	if strings.HasPrefix(kind, "text/html") {
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	if strings.Contains(strings.Join(r.Header.Values("If-None-Match"), ","), f.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(f.text)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(f.text) // a client that has gone needs no answer
	}
}
