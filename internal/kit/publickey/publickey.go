// Package publickey reads the SSH public key that a person gives, and certificates of keys.
//
// What enters: a text, mostly the content of a .pub file. What leaves: the key; or what the text is instead, and how it becomes
// one.
package publickey

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Mistake is why a text is not one public key.
type Mistake struct {
	Text string // what it is: "this is a private key"
	Hint string // what would work
}

func (m *Mistake) Error() string { return m.Text + ": " + m.Hint }

// Parse reads a text that is one line of authorized_keys(5) without options, and returns the key with its comment,
// or what is wrong.
func Parse(text string) (key ssh.PublicKey, comment string, wrong *Mistake) {
	text = strings.TrimPrefix(text, "\ufeff")
	for _, k := range kinds() {
		if k.is.MatchString(text) {
			return nil, "", &k.Mistake
		}
	}
	key, comment, options, rest, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		wrong = &Mistake{"this is no SSH public key", "give the content of a .pub file, such as ~/.ssh/id_ed25519.pub"}
		if lines := strings.Fields(text); len(lines) > 2 {
			if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(lines[0] + " " + strings.Join(lines[1:], ""))); err == nil {
				wrong = &Mistake{"this public key is broken into several lines", "give it in one line"}
			}
		}
		return nil, "", wrong
	}
	if len(options) > 0 {
		return nil, "", &Mistake{fmt.Sprintf("this public key has options (%s), which have no effect here",
			strings.Join(options, ",")), "leave out what stands before " + key.Type()}
	}
	if _, is := key.(*ssh.Certificate); is {
		return nil, "", &Mistake{"this is a certificate",
			"give the key alone, from the .pub file beside the one that ends with -cert.pub"}
	}
	for n := 2; strings.TrimSpace(string(rest)) != ""; n++ {
		if _, _, _, rest, err = ssh.ParseAuthorizedKey(rest); err != nil || strings.TrimSpace(string(rest)) == "" {
			return nil, "", &Mistake{fmt.Sprintf("these are %d lines", n), "give one key at a time"}
		}
	}
	return key, comment, nil
}

// Certificate reads an OpenSSH certificate.
func Certificate(line string) (*ssh.Certificate, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	c, ok := key.(*ssh.Certificate)
	if !ok {
		return nil, errors.New("read the certificate: it is a bare key")
	}
	return c, nil
}

// kind is a form of text that is taken for a public key's.
type kind struct {
	is *regexp.Regexp
	Mistake
}

func kinds() []kind {
	as := func(pattern, text, hint string) kind { return kind{regexp.MustCompile(pattern), Mistake{text, hint}} }
	return []kind{
		as(`^\s*$`, "there is no key", "give the content of a .pub file, such as ~/.ssh/id_ed25519.pub"),
		as(`PuTTY-User-Key-File-`, "this is a private key of PuTTY, which must stay private",
			"PuTTYgen shows the public key, under “Public key for pasting into OpenSSH authorized_keys file”"),
		as(`PRIVATE KEY-----`, "this is a private key, which must stay private", "give the .pub file beside it"),
		as(`BEGIN SSH2 PUBLIC KEY`, "this public key is in the format of RFC 4716, as PuTTYgen and others save it",
			"`ssh-keygen -i -f FILE` prints it as OpenSSH writes it"),
		as(`-----BEGIN PUBLIC KEY-----`, "this public key is in the format PKCS #8",
			"`ssh-keygen -i -m PKCS8 -f FILE` prints it as OpenSSH writes it"),
		as(`-----BEGIN RSA PUBLIC KEY-----`, "this public key is in the format PEM",
			"`ssh-keygen -i -m PEM -f FILE` prints it as OpenSSH writes it"),
		as(`-----BEGIN `, "this is no SSH public key", "give the content of a .pub file, such as ~/.ssh/id_ed25519.pub"),
		as(`^\s*(\d+ )?(SHA256:|MD5:)\S+`, "this is a key's fingerprint", "give the key, the content of a .pub file"),
		as(`\x00|^\x{fffd}`, "this text is UTF-16, as some editors and shells write it", "save it as plain text in UTF-8"),
	}
}
