// Package page is the one page that a replica shows to people: read-only, live, and made of a few
// files that are served as they are. The files hold no data; the page asks the API for it, with the
// token of whoever looks, so that everybody may have them.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed *.html *.css *.js *.svg
var files embed.FS

// policy lets the page load its own files and ask its own server, and nothing else. No text can
// become markup or code.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// kinds are the files that /static/ has, by the end of their names.
var kinds = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// Handler serves the page at / and /jobs/{name}, and its files at /static/{file}. All links are
// relative, so that it can be mounted below a path which is stripped first.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dir, file := path.Split(r.URL.Path)
		kind, static := kinds[path.Ext(file)]
		switch {
		case dir == "/static/" && static:
		case dir == "/" && file == "":
			file, kind = "index.html", "text/html; charset=utf-8"
		case dir == "/jobs/" && file != "":
			file, kind = "job.html", "text/html; charset=utf-8"
		default:
			http.NotFound(w, r)
			return
		}
		serve(w, r, file, kind)
	})
}

// serve answers with a file, or with "not changed". A new binary's page is seen at once.
func serve(w http.ResponseWriter, r *http.Request, file, kind string) {
	text, err := files.ReadFile(file)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(text)))
	if strings.HasPrefix(kind, "text/html") {
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	http.ServeContent(w, r, file, time.Time{}, bytes.NewReader(text))
}
