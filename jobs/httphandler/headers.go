package httphandler

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
)

// harmless are headers whose values are not secret, and occur in answers.
var harmless = []string{
	"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control", "Content-Disposition",
	"Content-Encoding", "Content-Language", "Content-Type", "Date", "Host", "Pragma", "Range", "User-Agent",
}

// secretsOf are the secrets of a header: its value, the part behind a scheme as Bearer, the values of pairs as
// in cookies, and the password of Basic, alone and with its user.
func secretsOf(name, value string) []string {
	if slices.Contains(harmless, http.CanonicalHeaderKey(name)) {
		return nil
	}
	value = strings.Trim(value, " \t")
	all := []string{value}
	if scheme, rest, two := strings.Cut(value, " "); two && tokenPattern.MatchString(scheme) {
		rest = strings.Trim(rest, " \t")
		if all = append(all, rest); strings.EqualFold(scheme, "Basic") {
			if user, err := base64.StdEncoding.DecodeString(rest); err == nil {
				_, password, _ := strings.Cut(string(user), ":")
				all = append(all, string(user), password)
			}
		}
	}
	for _, pair := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" \t,;", r) }) {
		if _, part, pairs := strings.Cut(pair, "="); pairs {
			all = append(all, part, strings.Trim(part, `"`))
		}
	}
	return all
}
