package httphandler

import (
	"encoding/base64"
	"slices"
	"testing"
)

// What of a header is no secret stays; of the others each part is known that a server may repeat by itself.
func TestSecretsOfHeaders(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("amy:pass:wordy!"))
	for _, c := range []struct {
		name, value string
		want        []string
	}{
		{"content-type", "text/plain; charset=utf-8", nil},
		{"User-Agent", "me", nil},
		{"X-Key", " \tkey ", []string{"key"}},
		{"X-Key", "", []string{""}},
		{"Authorization", "Bearer  token ", []string{"Bearer  token", "token"}},
		{"Authorization", "a:b c", []string{"a:b c"}},
		{"Authorization", "Bearer " + basic, []string{"Bearer " + basic, basic}},
		{"Authorization", "basic " + basic, []string{"basic " + basic, basic, "amy:pass:wordy!", "pass:wordy!"}},
		{"Authorization", "Basic !", []string{"Basic !", "!"}},
		{"Cookie", `a=1;b="2",c`, []string{`a=1;b="2",c`, "1", "1", `"2"`, "2"}},
		{"Authorization", "Digest a=1, b=2", []string{"Digest a=1, b=2", "a=1, b=2", "1", "1", "2", "2"}},
	} {
		if got := secretsOf(c.name, c.value); !slices.Equal(got, c.want) {
			t.Errorf("%s: %s: %q, want %q", c.name, c.value, got, c.want)
		}
	}
}
