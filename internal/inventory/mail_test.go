package inventory

import (
	"slices"
	"strings"
	"testing"
)

func TestASiteNamesItsMailRelay(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil,
		"mail: {relay: 'smtp.example.org:25', from: muster@Example.org}":                              {"example.org"},
		"mail: {relay: 'smtp:25', from: muster@example.org, domains: [hpc.example.org, Uni.example]}": {"hpc.example.org", "uni.example"},
	} {
		c, err := parseCatalogue([]byte(builtin + text + "\n"))
		if err != nil || (c.Mail == nil) != (want == nil) || want != nil && !slices.Equal(c.Mail.Domains, want) {
			t.Errorf("%s: %+v, %v", text, c.Mail, err)
		}
	}
	for text, want := range map[string]string{
		"mail: {}": "mail.relay",
		"mail: {relay: smtp.example.org, from: a@example.org}":            "mail.relay",
		"mail: {relay: 'smtp:25'}":                                        "mail.from",
		"mail: {relay: 'smtp:25', from: Muster <a@example.org>}":          "mail.from",
		"mail: {relay: 'smtp:25', from: a@example.org, domains: ['a b']}": "mail.domains",
		"mail: {relay: 'smtp:25', from: a@example.org, password: none}":   "password",
	} {
		if _, err := parseCatalogue([]byte(builtin + text + "\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
