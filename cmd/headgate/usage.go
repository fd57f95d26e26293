package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	helpAllFlag     = "help-all"
	textColumns     = 80 // maximum width of help texts and tables
	textColumn      = 32 // column in which the text of a flag begins, from 0
	groupAnnotation = "headgate_group"
	rareAnnotation  = "headgate_rare"
)

// printHelp prints the help of a command: description, usage, examples, commands and
// flags. It prints rarely needed flags only with --help-all. It prints nothing for a
// group with an unknown command: the caller of the command line returns that error.
func printHelp(cmd *cobra.Command, _ []string) {
	if groupArgument(cmd) != nil {
		return
	}
	all, err := cmd.Flags().GetBool(helpAllFlag)
	rare := err == nil && all
	var b strings.Builder
	if about := strings.TrimSpace(cmd.Long); about != "" {
		b.WriteString(about + "\n\n")
	} else if cmd.Short != "" {
		b.WriteString(cmd.Short + ".\n\n")
	}
	b.WriteString("Usage:\n")
	if cmd.HasSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", cmd.CommandPath())
	} else {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.Example != "" {
		b.WriteString("\nExamples:\n" + cmd.Example + "\n")
	}
	writeCommands(&b, cmd)
	writeFlags(&b, cmd, rare)
	_, _ = io.WriteString(cmd.OutOrStdout(), b.String()) // the reader, such as head, may have closed the pipe
}

// writeCommands lists the commands of a group. It writes nothing for a command without
// commands.
func writeCommands(b *strings.Builder, group *cobra.Command) {
	if !group.HasSubCommands() {
		return
	}
	b.WriteString("\nCommands:\n")
	for _, sub := range group.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			writeEntry(b, "  "+sub.Name(), strings.Fields(sub.Short), 14)
		}
	}
	fmt.Fprintf(b, "\nHelp on a command: %s COMMAND --help\n", group.CommandPath())
}

// writeFlags lists the flags of a command by group, in the order of definition. Unless
// rare is set, it leaves out rarely needed flags and writes their number.
func writeFlags(b *strings.Builder, cmd *cobra.Command, rare bool) {
	var order []string
	groups, leftOut := make(map[string][]*pflag.Flag), 0
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Hidden || f.Name == "help" || f.Name == helpAllFlag:
			return
		case f.Annotations[rareAnnotation] != nil && !rare:
			leftOut++
			return
		}
		group := "Flags"
		if named := f.Annotations[groupAnnotation]; len(named) > 0 {
			group = named[0]
		}
		if groups[group] == nil {
			order = append(order, group)
		}
		groups[group] = append(groups[group], f)
	})
	for _, group := range order {
		b.WriteString("\n" + group + ":\n")
		for _, f := range groups[group] {
			writeFlag(b, f)
		}
	}
	if leftOut > 0 {
		fmt.Fprintf(b, "\n%d more flags: %s --%s\n", leftOut, cmd.CommandPath(), helpAllFlag)
	}
}

// writeFlag writes a flag's name, the placeholder of its value, its help text and its
// default.
func writeFlag(b *strings.Builder, f *pflag.Flag) {
	kind, text := pflag.UnquoteUsage(f)
	name := "  --" + f.Name
	if f.Shorthand != "" {
		name = "  -" + f.Shorthand + ", --" + f.Name
	}
	if kind != "" {
		name += " " + kind
	}
	words := strings.Fields(text)
	switch f.DefValue {
	case "", "false", "[]":
	default:
		words = append(words, "(default "+strings.Trim(f.DefValue, "[]")+")")
	}
	writeEntry(b, name, words, textColumn)
}

// writeEntry writes a name, and then words beginning at the given column, wrapped at
// textColumns. A word that is longer than a line is broken.
func writeEntry(b *strings.Builder, name string, words []string, column int) {
	b.WriteString(name)
	at := utf8.RuneCountInString(name)
	if at+2 > column {
		b.WriteString("\n")
		at = 0
	}
	b.WriteString(strings.Repeat(" ", column-at))
	at = column
	for i, word := range breakWords(words, textColumns-column) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+n > textColumns:
			b.WriteString("\n" + strings.Repeat(" ", column))
			at = column
		default:
			b.WriteString(" ")
			at++
		}
		b.WriteString(word)
		at += n
	}
	b.WriteString("\n")
}

// breakWords returns words in which every word that is longer than width is replaced by
// parts of at most width characters.
func breakWords(words []string, width int) (parts []string) {
	for _, word := range words {
		chars := []rune(word)
		for len(chars) > width {
			parts, chars = append(parts, string(chars[:width])), chars[width:]
		}
		parts = append(parts, string(chars))
	}
	return parts
}

// setGroup puts flags into the group with the given heading in the help of their
// command.
func setGroup(f *pflag.FlagSet, heading string, names ...string) {
	for _, name := range names {
		if err := f.SetAnnotation(name, groupAnnotation, []string{heading}); err != nil {
			panic("headgate: " + err.Error())
		}
	}
}
