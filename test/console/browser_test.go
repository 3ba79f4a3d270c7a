package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long a page may take to show something, such as nodes that have started. It is spent only by a test that fails.
const patience = 2 * time.Minute

// browser is a tab of a real browser, in which somebody uses the console.
type browser struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	wrong    []string // what the page has complained of
	expected []string // parts of complaints that the test causes
}

// open starts a browser with an empty profile. It ends with the test, which fails if the page has complained of anything: an
// exception, a file that its policy refuses, an answer that the test does not expect.
func open(t testing.TB) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not there: apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.WindowSize(1440, 900), chromedp.Flag("force-prefers-reduced-motion", true))
	browsers, end := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...) // it ends below
	ctx, cancel := chromedp.NewContext(browsers)
	b := &browser{TB: t, ctx: ctx}
	var said sync.WaitGroup
	messages := chromedp.Console(ctx)
	said.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleException || m.Type == chromedp.ConsoleWarning {
				b.mu.Lock()
				b.wrong = append(b.wrong, fmt.Sprintf("%s: %s (%s)", m.Type, m.Text, m.URL))
				b.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the page shows:\n%s", b.text())
		}
		cancel()
		end()
		said.Wait()
		for _, text := range b.wrong {
			if !slices.ContainsFunc(b.expected, func(part string) bool { return strings.Contains(text, part) }) {
				t.Errorf("the page complains: %s", text)
			}
		}
	})
	return b
}

// expects names parts of complaints that the test causes.
func (b *browser) expects(parts ...string) { b.expected = append(b.expected, parts...) }

func (b *browser) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatalf("%s: %v", what, err)
	}
}

// goTo opens an address.
func (b *browser) goTo(address string) {
	b.Helper()
	b.do("open "+address, chromedp.Navigate(address))
}

// address is that of the page that is shown.
func (b *browser) address() string {
	b.Helper()
	return b.value(`location.href`)
}

// value is what an expression is in the page.
func (b *browser) value(expression string) string {
	b.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](expression))
	if err != nil {
		b.Fatal(err)
	}
	return value
}

// click presses the button, link or item with these words, once it can be pressed: in the dialog or menu that is open, if any.
func (b *browser) click(words string) {
	b.Helper()
	b.until(words+" can be pressed", pressable(words))
	b.do("press "+words, chromedp.Click(chromedp.CSS("[data-press]")))
}

// pressable is true when what click presses is there, and marks it.
func pressable(words string) string {
	return fmt.Sprintf(`(() => {
		const place = [...document.querySelectorAll('[role=dialog], [role=menu]')].at(-1) ?? document
		const all = [...place.querySelectorAll('button, a, [role=menuitem], [role=option]')]
		const one = all.find((e) => (e.textContent.trim().includes(%[1]s) || e.ariaLabel === %[1]s) && e.offsetParent !== null)
		if (one === undefined || one.disabled || one.ariaDisabled === 'true') return false
		document.querySelectorAll('[data-press]').forEach((e) => e.removeAttribute('data-press'))
		one.setAttribute('data-press', '')
		return true
	})()`, quoted(words))
}

// acts presses a button that asks the controller for something, until what the page shows then is there: news may come just when
// it is pressed, and what it would do is asked again.
func (b *browser) acts(words, done string) {
	b.Helper()
	for range 5 {
		b.until(words+" can be pressed, or has been", `(`+done+`) || `+pressable(words))
		if b.within(0, done) {
			return
		}
		b.do("press "+words, chromedp.Click(chromedp.CSS("[data-press]")))
		if b.within(5*time.Second, done) {
			return
		}
	}
	b.Fatalf("%s does nothing in:\n%s", words, b.text())
}

// fill writes into the field with this label, instead of what it has.
func (b *browser) fill(label, text string) {
	b.Helper()
	b.until("a field "+label, fmt.Sprintf(`(() => {
		const label = [...document.querySelectorAll('label')].find((l) => l.textContent.trim() === %s)
		const field = label && document.getElementById(label.htmlFor)
		field?.focus()
		field?.select()
		return field !== undefined && document.activeElement === field
	})()`, quoted(label)))
	b.do("write "+text, typed(text))
}

// uploads chooses files to upload, as somebody does in the dialog of the operating system.
func (b *browser) uploads(files ...string) {
	b.Helper()
	b.do("choose files", chromedp.SetUploadFiles(chromedp.CSS("input[type=file]"), files))
}

// downloads clicks a link that downloads a file, and returns what is in it.
func (b *browser) downloads(name string) string {
	b.Helper()
	folder := b.TempDir()
	b.do("allow downloads", chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{
			Behavior: cdpbrowser.SetDownloadBehaviorBehaviorAllow, DownloadPath: folder})
		return err
	}))
	b.click(name)
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err == nil {
			return string(text)
		}
		if time.Now().After(end) {
			b.Fatalf("%s is not downloaded: %v in:\n%s", name, err, b.text())
		}
	}
}

// press presses keys that the page listens for.
func (b *browser) press(keys string) {
	b.Helper()
	b.do("press "+keys, typed(keys))
}

// opens presses a key until a dialog is open: a page that has just come does not hear keys yet.
func (b *browser) opens(key string) {
	b.Helper()
	for range 120 {
		b.press(key)
		if b.within(time.Second, `document.querySelector('[role=dialog]') !== null`) {
			return
		}
	}
	b.Fatalf("%s opens nothing in:\n%s", key, b.text())
}

// typed presses and releases keys. Whether a letter follows, the page decides when it hears of the key, as with a keyboard:
// chromedp.KeyEvent sends the letter in any case, and a terminal takes it twice.
func typed(text string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		for _, letter := range text {
			events := kb.Encode(letter)
			down, up := *events[0], *events[len(events)-1]
			if len(events) == 3 {
				down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
			}
			for _, event := range []input.DispatchKeyEventParams{down, up} {
				if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, event); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// shows waits until the page shows a text.
func (b *browser) shows(text string) {
	b.Helper()
	b.until(text+" is shown", fmt.Sprintf(`document.body.innerText.includes(%s)`, quoted(text)))
}

// until waits until an expression is true in the page.
func (b *browser) until(what, expression string) {
	b.Helper()
	if !b.within(patience, expression) {
		b.Fatalf("%s: not so in:\n%s", what, b.text())
	}
}

// within says whether an expression becomes true in the page in time.
func (b *browser) within(limit time.Duration, expression string) bool {
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		is, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression))
		if err == nil && is {
			return true
		}
		if time.Now().After(end) || b.ctx.Err() != nil {
			return false
		}
	}
}

// text is what the page shows.
func (b *browser) text() string {
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`location.href + '\n' + document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return text
}

// picture writes pictures of what the page shows: on a wide screen and on a small one, light and dark.
func (b *browser) picture(folder, name string) {
	b.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		b.Fatal(err)
	}
	for width, height := range map[int64]int64{1440: 940, 390: 844} {
		for _, scheme := range []string{"light", "dark"} {
			b.do("a picture", chromedp.EmulateViewport(width, height))
			b.until(scheme, fmt.Sprintf(`(document.documentElement.style.colorScheme = %q) !== ''`, scheme))
			time.Sleep(300 * time.Millisecond)
			picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
			if err == nil {
				err = os.WriteFile(filepath.Join(folder, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), picture, 0o644)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// quoted is a text of JavaScript.
func quoted(text string) string {
	written, _ := json.Marshal(text) // of a string, it cannot fail
	return string(written)
}
