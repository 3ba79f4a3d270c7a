// Package flood_test sends a controller what those send who want to keep others out, and looks what the others notice.
package flood_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/internal/kit/testall"
	"muster/internal/protocol"
	"muster/test/rig"
)

// TestMain is the flooder too: a process of its own has its own file descriptors.
func TestMain(m *testing.M) {
	if address := os.Getenv("MUSTER_FLOOD"); address != "" {
		flood(address, os.Getenv("MUSTER_FLOOD_COUNT"))
		return
	}
	os.Exit(m.Run())
}

// flood keeps so many connections open as its count says, until its standard input ends. What is closed is opened again.
func flood(address, count string) {
	most, err := strconv.Atoi(count)
	if err != nil {
		panic(err)
	}
	var begun atomic.Int64
	for i := range most {
		go func() {
			for first := true; ; first = false {
				c, err := net.Dial("tcp", address)
				if first {
					begun.Add(1)
				}
				if err == nil {
					hold(c, i)
				}
				time.Sleep(10 * time.Second)
			}
		}()
		if i%100 == 99 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	for int(begun.Load()) < most {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("all are there")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// hold keeps a connection until it is closed: idle, asked once, with headers or a body that never end.
func hold(c net.Conn, i int) {
	defer func() { _ = c.Close() }()
	begin := []string{
		"",
		"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /v1/clusters HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"POST /v1/clusters HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nname:",
		"GET /openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\nGET /openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\n",
	}[i%5]
	_, _ = io.WriteString(c, begin)
	if i%5 == 4 { // an answer that is not read
		time.Sleep(time.Minute)
		return
	}
	_, _ = io.Copy(io.Discard, c)
}

// floods starts processes that have so many connections each, and waits until they have.
func floods(t *testing.T, address string, each ...int) {
	t.Helper()
	for _, count := range each {
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append(os.Environ(), "MUSTER_FLOOD="+address, "MUSTER_FLOOD_COUNT="+strconv.Itoa(count))
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = in.Close(); _ = c.Process.Kill(); _ = c.Wait() })
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal("the flooder ended:", err)
		}
	}
}

// site is a controller with a cluster, and somebody who uses it.
type site struct {
	*rig.Rig
	controller *rig.Controller
	user       *rig.Rig
	metrics    string
}

func begin(t *testing.T) *site {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{metrics: l.Addr().String()}
	_ = l.Close()
	s.Rig = rig.New(t, "")
	s.Flags = []string{"--metrics", s.metrics}
	s.controller = s.Start()
	s.Run("machines", "add", "--local", "3", "--wait")
	s.Run("create", "hello", "--nodes", "2", "--wait")
	s.Run("users", "add", "ada")
	s.user = s.As(strings.TrimSpace(s.Run("tokens", "add", "test", "--person", "ada")))
	s.Run("projects", "grant", "default", "ada", "member")
	return s
}

func (s *site) address() string { return strings.TrimPrefix(s.controller.URL, "http://") }

// latencies asks for the clusters so many times, each by a connection of its own.
func (s *site) latencies(n int) []time.Duration {
	s.Helper()
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var all []time.Duration
	for range n {
		request, err := http.NewRequest(http.MethodGet, s.controller.URL+"/v1/clusters", nil)
		if err != nil {
			s.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+s.user.Token)
		began := time.Now()
		response, err := client.Do(request)
		if err != nil {
			s.Errorf("no answer: %v", err)
			continue
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(text), `"hello"`) {
			s.Errorf("%s %s %v", response.Status, text, err)
		}
		all = append(all, time.Since(began))
		time.Sleep(5 * time.Millisecond)
	}
	slices.Sort(all)
	return all
}

func told(all []time.Duration) string {
	if len(all) == 0 {
		return "no answers"
	}
	at := func(share float64) time.Duration {
		return all[int(share*float64(len(all)-1))].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("%d answers, median %s, 90 %% %s, 99 %% %s, longest %s", len(all), at(0.5), at(0.9), at(0.99), at(1))
}

// metric reads one of the controller's.
func (s *site) metric(name string) float64 {
	s.Helper()
	response, err := http.Get("http://" + s.metrics + "/metrics")
	if err != nil {
		s.Error(err)
		return -1
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(text)
	if err != nil || found == nil {
		return 0
	}
	value, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		s.Error(err)
	}
	return value
}

func TestTwentyThousandConnectionsBesideAUserAreNotNoticed(t *testing.T) {
	testall.Only(t)
	s := begin(t)
	before := s.latencies(200)
	floods(t, s.address(), 10_000, 10_000)
	during := s.latencies(200)
	t.Logf("without: %s", told(before))
	t.Logf("beside:  %s", told(during))
	open, files := s.metric(`muster_connections{door="api"}`), s.metric("process_open_fds")
	t.Logf("the API has %.0f connections, the process %.0f descriptors of %.0f", open, files, s.metric("process_max_fds"))
	if open < 100 || files > 0.8*s.metric("process_max_fds") {
		t.Error("that are too few to be a flood, or too many")
	}
	if len(during) < 200 || during[len(during)/2] > 10*before[len(before)/2]+100*time.Millisecond {
		t.Error("the user notices")
	}
	for _, path := range []string{s.controller.URL + "/readyz", "http://" + s.metrics + "/readyz"} {
		response, err := http.Get(path)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Error(path, response, err)
			continue
		}
		_ = response.Body.Close()
	}
	s.Run("status")
	if out := s.user.Run("list"); !strings.Contains(out, "hello") {
		t.Error(out)
	}
	if out := s.Run("ssh", "hello", "--", "srun", "-N2", "hostname"); !strings.Contains(out, "n2") {
		t.Error(out)
	}
	s.user.Run("scale", "hello", "1", "--wait")
	log, err := os.ReadFile(s.controller.Log)
	if err != nil || strings.Contains(string(log), "too many open files") {
		t.Error("the controller ran out of descriptors", err)
	}
	if silent := s.metric("muster_heartbeat_age_max_seconds"); silent > 15 {
		t.Errorf("a node was not heard for %.0f s", silent)
	}
	s.Run("delete", "hello", "--wait")
	s.NothingLeft()
}

func TestTheStreamsOfOneTokenAreCounted(t *testing.T) {
	testall.Only(t)
	s := begin(t)
	counts := map[int]int{}
	var open []io.Closer
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 1500 {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.controller.URL+"/v1/events?watch=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+s.user.Token)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		counts[response.StatusCode]++
		switch response.StatusCode {
		case http.StatusOK:
			open = append(open, response.Body)
		case http.StatusTooManyRequests:
			text, _ := io.ReadAll(response.Body)
			if response.Header.Get("Retry-After") == "" || !strings.Contains(string(text), "ada has 100 event streams open") {
				t.Fatal(string(text))
			}
			_ = response.Body.Close()
		}
	}
	t.Log(counts)
	if counts[200] != 100 || counts[429] != 1400 {
		t.Error("not 100 of 1500 were let in")
	}
	if out := s.user.Run("list"); !strings.Contains(out, "hello") {
		t.Error(out)
	}
	if out := s.Run("scale", "hello", "1", "--wait"); out == "" { // the administrator follows events, too
		t.Log("scaled")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, s.Binary, "events", "-w")
	c.Env = append(os.Environ(), "MUSTER_URL="+s.controller.URL, "MUSTER_TOKEN="+s.user.Token)
	if out, _ := c.CombinedOutput(); !strings.Contains(string(out), "ada has 100 event streams open") ||
		!strings.Contains(string(out), "trying again") {
		t.Errorf("the command line says %q", out)
	}
	for _, body := range open {
		_ = body.Close()
	}
	s.Eventually(20*time.Second, "places are given back", func() bool {
		return s.metric(`muster_api_streams{operation="list-events"}`) == 0
	})
	s.Run("delete", "hello", "--wait")
	s.NothingLeft()
}

func TestAgentsDoorsEndWhatNeverEnds(t *testing.T) {
	testall.Only(t)
	if os.Geteuid() != 0 {
		t.Skip("agents' doors are not tested: this needs root")
	}
	const port, address = "muster-flood", "10.93.0.1"
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v %s", args, err, out)
		}
	}
	ip("link", "add", port, "type", "bridge")
	t.Cleanup(func() { ip("link", "del", port) })
	ip("addr", "add", address+"/24", "dev", port)
	ip("link", "set", port, "up")
	s := begin(t)
	s.Run("networks", "add", "lab", "--interface", port, "--address", address+"/24", "--mode", "off")
	t.Cleanup(func() { s.Muster("networks", "remove", "lab") })
	door := net.JoinHostPort(address, fmt.Sprint(protocol.AgentPort))
	config := &tls.Config{InsecureSkipVerify: true} // a stranger does not care
	dial := func() (net.Conn, error) {
		return tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", door, config)
	}
	s.Eventually(20*time.Second, "the door is open", func() bool {
		c, err := dial()
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	ended := make(chan time.Duration, 200)
	began := time.Now()
	hold := func(first string) {
		c, err := dial()
		if err != nil {
			ended <- time.Since(began)
			return
		}
		_, _ = io.WriteString(c, first)
		_ = c.SetReadDeadline(began.Add(90 * time.Second))
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
		ended <- time.Since(began)
	}
	for i := range 150 {
		switch {
		case i < 50:
			go hold("")
		case i < 100:
			go hold("GET /agent/v1/config?after=0 HTTP/1.1\r\nHost: x\r\n\r\n")
		default:
			go hold("POST /agent/v1/join HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n{\"node\":")
		}
	}
	time.Sleep(3 * time.Second)
	if open := s.metric(`muster_connections{door="agents"}`); open < 1 || open > 32 {
		t.Errorf("%.0f connections of one address are open", open)
	}
	c, err := dial() // somebody else comes in
	if err != nil {
		t.Error("the door is closed:", err)
	} else {
		_, _ = io.WriteString(c, "POST /agent/v1/join HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
		if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400") {
			t.Errorf("%q %v", answer, err)
		}
	}
	var last time.Duration
	for range 150 {
		last = max(last, <-ended)
	}
	t.Logf("the last was closed after %s", last.Round(time.Second))
	if last > 60*time.Second {
		t.Error("that is too late")
	}
	if silent := s.metric("muster_heartbeat_age_max_seconds"); silent > 15 {
		t.Errorf("a node was not heard for %.0f s", silent)
	}
	s.Run("delete", "hello", "--wait")
}
