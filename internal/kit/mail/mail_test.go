package mail

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"mime"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/kit/mail/mailtest"
)

func TestOnlyAddressesOfTheSiteAreWrittenTo(t *testing.T) {
	r := Relay{Domains: []string{"example.org", "hpc.example.org"}}
	for to, want := range map[string]string{
		"ada": "ada@example.org", "ada@hpc.example.org": "ada@hpc.example.org", "Ada@EXAMPLE.org": "Ada@EXAMPLE.org",
		"ada@example.com": "", "ada@sub.example.org": "", "": "", "@example.org": "", "Ada <ada@example.org>": "",
		"ada@example.org,eve@example.org": "", "ada@example.org\r\nDATA": "", "ada@example.org@example.com": "", "a b": "",
	} {
		if got, err := r.Recipient(to); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", to, got, err)
		}
	}
}

func TestALetterHasOneSubjectAndNoHeaderOfItsOwn(t *testing.T) {
	text := Relay{From: "muster@example.org"}.compose(Letter{"ada@example.org", "Name=x\r\nBcc: eve@example.org\r\n\r\nBørn \x1b[2J" +
		strings.Repeat("x", 1000), "one\n.\ntwo ☂\n"}, time.Unix(1760000000, 0).UTC())
	m, err := mail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || !strings.HasPrefix(subject, `Name=x\r\nBcc: eve@example.org\r\n\r\nBørn \x1b[2Jxxx`) || len(subject) > mostSubject {
		t.Errorf("%q, %v", subject, err)
	}
	if m.Header.Get("Bcc") != "" || m.Header.Get("Date") != "Thu, 09 Oct 2025 08:53:20 +0000" ||
		m.Header.Get("Auto-Submitted") != "auto-generated" {
		t.Errorf("%v", m.Header)
	}
}

// relay answers by the line that it was sent; what it does not know it takes.
type relay struct {
	answers map[string]string
	hangs   func() // is called when it does
	mu      sync.Mutex
	heard   []string
}

func (r *relay) listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	return l.Addr().String()
}

func (r *relay) serve(conn net.Conn) {
	defer conn.Close()
	fmt.Fprint(conn, "220 relay\r\n")
	lines, data := bufio.NewScanner(conn), false
	for lines.Scan() {
		line := lines.Text()
		r.mu.Lock()
		r.heard = append(r.heard, line)
		r.mu.Unlock()
		answer := "250 ok"
		for begins, says := range r.answers {
			if strings.HasPrefix(line, begins) {
				answer = says
			}
		}
		switch {
		case data && line != ".":
			continue
		case answer == "hang":
			r.hangs()
			continue
		case line == "DATA":
			data, answer = true, "354 go on"
		default:
			data = false
		}
		fmt.Fprint(conn, answer+"\r\n")
	}
}

func TestWhatARelayRefusesForGoodIsNotTriedAgain(t *testing.T) {
	letters := []Letter{{To: "ada@example.org"}, {To: "bob@example.org"}, {To: "eve@example.org"}}
	for name, c := range map[string]struct {
		answers      map[string]string
		done         int
		refused, err string
	}{
		"all is well":                {nil, 3, "", ""},
		"one is not known":           {map[string]string{"RCPT TO:<bob": "550 who"}, 3, `bob@example.org: 550 "who"`, ""},
		"one is to be tried later":   {map[string]string{"RCPT TO:<bob": "450 later"}, 1, "", `450 "later"`},
		"the relay takes no letters": {map[string]string{"EHLO": "421 closed", "HELO": "421 closed"}, 0, "", "421"},
		"it hangs":                   {map[string]string{"RCPT TO:<eve": "hang"}, 2, "", "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r := &relay{answers: c.answers, hangs: cancel}
			done, refused, err := Relay{Address: r.listen(t), From: "muster@example.org"}.Send(ctx, letters)
			if done != c.done || !holds(refused, c.refused) || !holds(err, c.err) {
				t.Errorf("%d done, refused %v, %v", done, refused, err)
			}
		})
	}
	if done, _, err := (Relay{Address: "127.0.0.1:1"}).Send(t.Context(), letters); done != 0 || err == nil {
		t.Errorf("nobody listens: %d, %v", done, err)
	}
}

func holds(err error, text string) bool {
	if err == nil {
		return text == ""
	}
	return text != "" && strings.Contains(err.Error(), text)
}

func TestARealServerTakesALetter(t *testing.T) {
	address, printed := mailtest.Server(t)
	r := Relay{Address: address, From: "muster@example.org", Domains: []string{"example.org"}}
	done, refused, err := r.Send(t.Context(), []Letter{{"ada@example.org", "job 7 has ended", "it was well\n.\nand long\n"}})
	if done != 1 || refused != nil || err != nil {
		t.Fatalf("%d done, refused %v, %v", done, refused, err)
	}
	for began := time.Now(); !strings.Contains(printed(), "and long"); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal(printed())
		}
	}
	for _, want := range []string{"Subject: job 7 has ended", "To: ada@example.org", "it was well", "b'.'"} {
		if !strings.Contains(printed(), want) {
			t.Errorf("%q is not in %s", want, printed())
		}
	}
}
