// Package mail hands letters to a site's relay by SMTP (RFC 5321).
package mail

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"muster/internal/kit/printable"
)

// Relay is a server that takes letters from here without a password.
type Relay struct {
	Address string   // host:port
	From    string   // address of the sender
	Domains []string // in lower case; who is elsewhere gets none. The first is that of names without one
}

// Letter is a short text to one person.
type Letter struct{ To, Subject, Body string }

// mostSubject bounds what a scheduler may put into a header, in bytes.
const mostSubject = 400

// Recipient is the address that is meant by what a user wrote, or why there is none.
func (r Relay) Recipient(to string) (string, error) {
	if !strings.Contains(to, "@") {
		to += "@" + r.Domains[0]
	}
	parsed, err := mail.ParseAddress(to)
	if err != nil || parsed.Address != to {
		return "", fmt.Errorf("%.100q is no address", to)
	}
	_, domain, _ := strings.Cut(to, "@")
	if !slices.Contains(r.Domains, strings.ToLower(domain)) {
		return "", fmt.Errorf("%.100q is not of %s", to, strings.Join(r.Domains, ", "))
	}
	return to, nil
}

// Send hands letters over in order, for as long as ctx lasts. It returns how many need not be tried again: those that the relay
// has taken, or refused for good; refused says which these were. An error is why it went no further.
func (r Relay) Send(ctx context.Context, letters []Letter) (done int, refused error, err error) {
	if len(letters) == 0 {
		return 0, nil, nil
	}
	host, _, err := net.SplitHostPort(r.Address)
	if err != nil {
		return 0, nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.Address)
	if err != nil {
		return 0, nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	client, err := smtp.NewClient(conn, host)
	if err != nil {
		return 0, nil, err
	}
	if offered, _ := client.Extension("STARTTLS"); offered {
		// As relays do among themselves (RFC 7435): few have a certificate that others could verify, and without TLS they take
		// letters, too.
		if err := client.StartTLS(&tls.Config{ServerName: host, InsecureSkipVerify: true}); err != nil {
			return 0, nil, err
		}
	}
	for _, letter := range letters {
		err := r.one(client, letter)
		var answer *textproto.Error
		switch {
		case errors.As(err, &answer) && answer.Code >= 500:
			refused = errors.Join(refused, fmt.Errorf("to %s: %w", letter.To, err))
			if err := client.Reset(); err != nil {
				return done + 1, refused, err
			}
		case err != nil:
			return done, refused, err
		}
		done++
	}
	_ = client.Quit() // they are taken, whatever it says to that
	return done, refused, nil
}

func (r Relay) one(client *smtp.Client, letter Letter) error {
	if err := client.Mail(r.From); err != nil {
		return err
	}
	if err := client.Rcpt(letter.To); err != nil {
		return err
	}
	w, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(r.compose(letter, time.Now())); err != nil {
		return err
	}
	return w.Close()
}

// compose writes a letter as RFC 5322 has it. Whatever it says, it has one subject, and no header of its own.
func (r Relay) compose(letter Letter, at time.Time) []byte {
	var b bytes.Buffer
	_, domain, _ := strings.Cut(r.From, "@")
	for _, header := range [][2]string{
		{"From", r.From}, {"To", letter.To},
		{"Subject", mime.QEncoding.Encode("utf-8", printable.Within(letter.Subject, mostSubject))},
		{"Date", at.Format(time.RFC1123Z)}, {"Message-ID", "<" + strings.ToLower(rand.Text()) + "@" + domain + ">"},
		{"Auto-Submitted", "auto-generated"}, // RFC 3834: no out-of-office answers
		{"MIME-Version", "1.0"}, {"Content-Type", "text/plain; charset=utf-8"}, {"Content-Transfer-Encoding", "quoted-printable"},
	} {
		fmt.Fprintf(&b, "%s: %s\r\n", header[0], header[1])
	}
	b.WriteString("\r\n")
	body := quotedprintable.NewWriter(&b)
	_, _ = body.Write([]byte(printable.Lines(letter.Body))) // to memory
	_ = body.Close()
	b.WriteString("\r\n")
	return b.Bytes()
}
