package recipe

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Values are what names in expressions stand for.
type Values map[string]float64

// Expression is arithmetic over named numbers: + - * / ^, brackets, and functions. It has no loops, so that its work is bounded
// by its length.
type Expression struct {
	text  string
	names []string
	eval  evaluator
}

// Names are the names that it has.
func (e Expression) Names() []string { return e.names }

// Eval is the value. An error names what is not known, and what is no number.
func (e Expression) Eval(values Values) (float64, error) {
	v, err := e.eval(values)
	if err == nil && !finite(v) {
		err = fmt.Errorf("%s is no number", e.text)
	}
	return v, err
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// functions are those of expressions, by their name and how many arguments they have at least.
var functions = map[string]struct {
	least, most int
	of          func([]float64) float64
}{
	"floor": {1, 1, func(v []float64) float64 { return math.Floor(v[0]) }},
	"ceil":  {1, 1, func(v []float64) float64 { return math.Ceil(v[0]) }},
	"sqrt":  {1, 1, func(v []float64) float64 { return math.Sqrt(v[0]) }},
	"log2":  {1, 1, func(v []float64) float64 { return math.Log2(v[0]) }},
	"min":   {2, 8, func(v []float64) float64 { return reduce(v, math.Min) }},
	"max":   {2, 8, func(v []float64) float64 { return reduce(v, math.Max) }},
}

func reduce(v []float64, f func(a, b float64) float64) float64 {
	sum := v[0]
	for _, x := range v[1:] {
		sum = f(sum, x)
	}
	return sum
}

const (
	longestExpression = 500 // bytes
	deepest           = 50  // brackets in brackets
)

// ParseExpression reads an expression. An error says at which character it goes wrong, from 1.
func ParseExpression(text string) (Expression, error) {
	if len(text) > longestExpression {
		return Expression{}, fmt.Errorf("an expression has %d bytes at most", longestExpression)
	}
	p := &expressionParser{text: text}
	eval, err := p.sum()
	if err == nil && p.next() != "" {
		err = p.wrong("expected an operator")
	}
	return Expression{text, p.names, eval}, err
}

type expressionParser struct {
	text  string
	at    int // bytes that were read
	depth int
	names []string
}

type evaluator = func(Values) (float64, error)

// next is the next word or sign, "" at the end. It stays to be taken.
func (p *expressionParser) next() string {
	for p.at < len(p.text) && strings.IndexByte(" \t\n", p.text[p.at]) >= 0 {
		p.at++
	}
	rest := p.text[p.at:]
	if n := strings.IndexFunc(rest, func(r rune) bool { return !isWord(r) }); n != 0 {
		if n < 0 {
			n = len(rest)
		}
		return rest[:n]
	}
	_, n := utf8.DecodeRuneInString(rest)
	return rest[:n]
}

func isWord(r rune) bool {
	return r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

func (p *expressionParser) take(word string) bool {
	if p.next() != word {
		return false
	}
	p.at += len(word)
	return true
}

func (p *expressionParser) wrong(what string) error {
	got := strconv.Quote(p.next())
	if got == `""` {
		got = "the end"
	}
	return fmt.Errorf("character %d: %s, not %s", utf8.RuneCountInString(p.text[:p.at])+1, what, got)
}

// sum, product and power are the three levels of operators; those of one level go from left to right, but for powers.
func (p *expressionParser) sum() (evaluator, error) {
	return p.chain(p.product, map[string]func(a, b float64) float64{
		"+": func(a, b float64) float64 { return a + b }, "-": func(a, b float64) float64 { return a - b }})
}

func (p *expressionParser) product() (evaluator, error) {
	return p.chain(p.power, map[string]func(a, b float64) float64{
		"*": func(a, b float64) float64 { return a * b }, "/": func(a, b float64) float64 { return a / b }})
}

func (p *expressionParser) chain(operand func() (evaluator, error), operators map[string]func(a, b float64) float64) (evaluator,
	error) {
	left, err := operand()
	for err == nil {
		operator, ok := operators[p.next()]
		if !ok {
			break
		}
		p.at++
		var right evaluator
		if right, err = operand(); err == nil {
			left = both(left, right, operator)
		}
	}
	return left, err
}

func both(left, right evaluator, operator func(a, b float64) float64) evaluator {
	return func(values Values) (float64, error) {
		a, err := left(values)
		if err != nil {
			return 0, err
		}
		b, err := right(values)
		return operator(a, b), err
	}
}

func (p *expressionParser) power() (evaluator, error) {
	if p.depth++; p.depth > deepest {
		return nil, fmt.Errorf("character %d: more than %d brackets in brackets", p.at+1, deepest)
	}
	defer func() { p.depth-- }()
	if p.take("-") {
		of, err := p.power()
		return both(func(Values) (float64, error) { return 0, nil }, of, func(a, b float64) float64 { return a - b }), err
	}
	base, err := p.atom()
	if err != nil || !p.take("^") {
		return base, err
	}
	exponent, err := p.power()
	return both(base, exponent, math.Pow), err
}

func (p *expressionParser) atom() (evaluator, error) {
	word := p.next()
	switch {
	case word == "(":
		p.at++
		inner, err := p.sum()
		if err == nil && !p.take(")") {
			err = p.wrong("expected )")
		}
		return inner, err
	case word == "" || !isWord(rune(word[0])):
		return nil, p.wrong("expected a number, a name or (")
	case '0' <= word[0] && word[0] <= '9' || word[0] == '.':
		v, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return nil, p.wrong("expected a number")
		}
		p.at += len(word)
		return func(Values) (float64, error) { return v, nil }, nil
	}
	p.at += len(word)
	if p.take("(") {
		return p.call(word)
	}
	p.names = append(p.names, word)
	return func(values Values) (float64, error) {
		v, known := values[word]
		if !known {
			return 0, fmt.Errorf("%s is not known here", word)
		}
		return v, nil
	}, nil
}

// call reads the arguments of a function.
func (p *expressionParser) call(name string) (evaluator, error) {
	f, known := functions[name]
	if !known {
		return nil, fmt.Errorf("there is no function %s", name)
	}
	var arguments []evaluator
	for more := true; more; more = p.take(",") {
		argument, err := p.sum()
		if err != nil {
			return nil, err
		}
		arguments = append(arguments, argument)
	}
	switch {
	case !p.take(")"):
		return nil, p.wrong("expected , or )")
	case len(arguments) < f.least || len(arguments) > f.most:
		return nil, fmt.Errorf("%s takes %d to %d values, not %d", name, f.least, f.most, len(arguments))
	}
	return func(values Values) (float64, error) {
		of := make([]float64, len(arguments))
		for i, argument := range arguments {
			v, err := argument(values)
			if err != nil {
				return 0, err
			}
			of[i] = v
		}
		return f.of(of), nil
	}, nil
}
