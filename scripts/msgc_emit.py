"""msgc, second half: planned messages into C. Generated readers have no error branches: struct rd is sticky.
"""
from msgc_schema import BLOBS, SCALARS, least_one, when, when_word


class Emit:
    def __init__(self):
        self.lines = []

    def __call__(self, text="", depth=0):
        self.lines.append(("    " * depth + text).rstrip())

    def text(self):
        return "\n".join(self.lines) + "\n"


def comment(words, indent=""):
    """A C comment of the given lines, or nothing."""
    text = [w.replace("*/", "* /") for w in words]
    if not text:
        return []
    return [f"{indent}/* {text[0]}"] + [f"{indent} * {t}" for t in text[1:-1]] + [f"{indent} * {text[-1]} */"] if len(text) > 1 \
        else [f"{indent}/* {text[0]} */"]


def c_type(f):
    if f.struct:
        return f"struct {f.struct.name}"
    return SCALARS[f.type][0] if f.type in SCALARS else "span"


def structs_of(m):
    """All structs of a message, inner ones first."""
    done = []

    def visit(s):
        for f in s.fields:
            if f.struct and f.struct not in done:
                visit(f.struct)
        if s not in done:
            done.append(s)
    visit(m.root)
    return done


def declare(e, m, s):
    e(f"struct {s.name} {{")
    for f in s.fields:
        note = [str(f.versions)] if not f.versions.covers(s.versions) else []
        note += ["key"] if f.key else []
        note += [f"tag {f.tag}"] if f.tag is not None else []
        note += ["null allowed" + ("" if f.null.covers(f.versions) else f" {f.null}")] if not f.null.empty() else []
        doc = " ".join(f.doc)
        tail = "; ".join(note) + (": " if note and doc else "") + doc
        tail = f"    /* {tail} */" if tail else ""
        if f.array:
            e(f"{c_type(f)} *{f.name};{tail}", 1)
            e(f"int32_t {f.name}_n;", 1)
        elif f.pointer():
            e(f"{c_type(f)} *{f.name};{tail}", 1)
        else:
            e(f"{c_type(f)} {f.name};{tail}", 1)
            if f.type == "records":
                e(f"struct chain *{f.name}_chain;    /* written instead of {f.name} when not NULL, and left empty */", 1)
    if not m.flexible.empty():
        e("const struct rd_unknown *unknown;    /* tags of a newer peer */", 1)
    e("};")
    e(f"void {s.name}_init(struct {s.name} *m);")
    e()


class Code:
    """The functions of one message."""

    def __init__(self, e, m):
        self.e, self.m = e, m

    def run(self):
        structs = structs_of(self.m)
        plain = set()
        for s in structs:
            for f in s.tagged():
                if f.struct and not f.array and not f.pointer():
                    plain |= {t.name for t in self.by_value(f.struct)}
        for s in structs:
            self.init(s)
            if s.name in plain:
                self.is_plain(s)
            if s.tagged():
                self.tags_read(s)
                self.tags_write(s)
            self.read(s)
            self.write(s)
            self.show(s)
        self.doors()

    def by_value(self, s):
        return [s] + [t for f in s.fields if f.struct and not f.array and not f.pointer() for t in self.by_value(f.struct)]

    def open(self, head):
        self.e(head + " {")

    def close(self):
        self.e("}")
        self.e()

    def flex_line(self, s):
        return f"[[maybe_unused]] const bool flex = {when_word(self.m.flexible, s.versions)};"

    def flex_of(self, f):
        return "false" if f.rigid or self.m.flexible.empty() else "flex"

    def set_default(self, f, depth=1):
        e = self.e
        if f.array:
            e(f"m->{f.name} = NULL;", depth)
            e(f"m->{f.name}_n = {f.c_default};", depth)
        elif f.struct and not f.pointer():
            e(f"{f.struct.name}_init(&m->{f.name});", depth)
        else:
            e(f"m->{f.name} = {f.c_default};", depth)
            if f.type == "records":
                e(f"m->{f.name}_chain = NULL;", depth)

    def init(self, s):
        self.open(f"void {s.name}_init(struct {s.name} *m)")
        for f in s.fields:
            self.set_default(f)
        if not self.m.flexible.empty():
            self.e("m->unknown = NULL;", 1)
        self.close()

    def not_plain(self, f):
        """C condition: the field differs from its default."""
        x = f"m->{f.name}"
        if f.array:
            return f"{x}_n != {f.c_default}"
        if f.pointer():
            return f"{x} != NULL"
        if f.struct:
            return f"!{f.struct.name}_plain(&{x})"
        if f.type == "uuid":
            return f"!uuid_is_zero({x})"
        if f.type == "records":
            return f"({x}_chain != NULL || !span_eq({x}, {f.c_default}))"
        if f.type in BLOBS:
            return f"!span_eq({x}, {f.c_default})"
        if f.type == "bool":
            return x if f.c_default == "false" else f"!{x}"
        return f"{x} != {f.c_default}"

    def is_plain(self, s):
        self.open(f"static bool {s.name}_plain(const struct {s.name} *m)")
        self.e("return m->unknown == NULL" + "".join(f" && !({self.not_plain(f)})" for f in s.fields) + ";", 1)
        self.close()

    # -- reading

    def read_one(self, f, target):
        """C statement that reads one value of f's type into target."""
        if f.struct:
            return f"{f.struct.name}_read(&{target}, r, v);"
        if f.type in SCALARS:
            return f"{target} = rd_{f.type}(r);"
        null = "false" if f.array else when_word(f.null, f.versions)
        return f"{target} = rd_{'string' if f.type == 'string' else 'bytes'}(r, {self.flex_of(f)}, {null});"

    def least_word(self, f):
        """C expression for the smallest element of the array f."""
        text, last = "", None
        for v in range(f.versions.lo, f.versions.hi + 1):
            n = least_one(f, v, self.m.flexible, self.m.flexible.has(v) and not f.rigid)
            if n != last:
                text = str(n) if last is None else f"v >= {v} ? {n} : {text}"
                last = n
        return text

    def read_array(self, f, count, depth):
        e, x = self.e, f"m->{f.name}"
        e(f"{x}_n = {count};", depth)
        e(f"{x} = rd_array(r, {x}_n, sizeof *{x});", depth)
        e(f"for (int32_t i = 0; i < {x}_n && !r->bad; i++) {{", depth)
        e(self.read_one(f, f"{x}[i]"), depth + 1)
        e("}", depth)

    def count_call(self, f):
        return f"rd_count(r, {self.flex_of(f)}, {when_word(f.null, f.versions)}, {self.least_word(f)})"

    def read_pointer(self, f, depth):
        e, x = self.e, f"m->{f.name}"
        if not f.null.covers(f.versions):
            e(f"{x} = {when(f.null, f.versions)} && !rd_present(r, {'true' if f.tag is not None else 'false'}) ? NULL : "
              f"rd_array(r, 1, sizeof *{x});", depth)
        else:
            e(f"{x} = rd_present(r, {'true' if f.tag is not None else 'false'}) ? rd_array(r, 1, sizeof *{x}) : NULL;", depth)
        e(f"if ({x} != NULL) {{", depth)
        e(f"{f.struct.name}_read({x}, r, v);", depth + 1)
        e("}", depth)

    def read_inline(self, s, f):
        e, cond, x = self.e, when(f.versions, s.versions), f"m->{f.name}"
        if f.array:
            count = self.count_call(f)
            self.read_array(f, f"{cond} ? {count} : {f.c_default}" if cond else count, 1)
        elif f.struct:
            if cond:
                e(f"if ({cond}) {{", 1)
            if f.pointer():
                self.read_pointer(f, 2 if cond else 1)
            else:
                e(self.read_one(f, x), 2 if cond else 1)
            if cond:
                e("} else {", 1)
                self.set_default(f, 2)
                e("}", 1)
        else:
            statement = self.read_one(f, x)
            if cond:
                call = statement[len(x) + 3:-1]
                cast = f"({SCALARS[f.type][0]})" if f.type in ("i8", "i16", "u16") else ""
                c_default = f"{cast}{f.c_default}" if cast else f.c_default
                statement = f"{x} = {cond} ? {call} : {c_default};"
            e(statement, 1)
            if f.type == "records":
                e(f"{x}_chain = NULL;", 1)

    def read(self, s):
        e = self.e
        self.open(f"static void {s.name}_read(struct {s.name} *m, struct rd *r, [[maybe_unused]] int v)")
        e(self.flex_line(s), 1)
        for f in s.inline():
            self.read_inline(s, f)
        for f in s.tagged():
            self.set_default(f)
        if self.m.flexible.empty():
            pass
        elif s.tagged():
            e("m->unknown = NULL;", 1)
            e("if (flex) {", 1)
            e(f"{s.name}_tags_read(m, r, v);", 2)
            e("}", 1)
        else:
            e("m->unknown = flex ? rd_unknown(r) : NULL;", 1)
        self.close()

    def tags_read(self, s):
        e, within = self.e, s.versions & self.m.flexible
        self.open(f"static void {s.name}_tags_read(struct {s.name} *m, struct rd *r, [[maybe_unused]] int v)")
        e("[[maybe_unused]] const bool flex = true;", 1)
        e("struct rd_tags t;", 1)
        e("rd_tags_open(&t, r);", 1)
        e("while (rd_tags_next(&t, r)) {", 1)
        word = "if"
        for f in s.tagged():
            cond = when(f.versions, within)
            e(f"{word} (t.tag == {f.tag}{' && ' + cond if cond else ''}) {{", 2)
            if f.array:
                self.read_array(f, self.count_call(f), 3)
            elif f.pointer():
                self.read_pointer(f, 3)
            else:
                e(self.read_one(f, f"m->{f.name}"), 3)
            word = "} else if"
        e("} else {", 2)
        e("rd_tags_keep(&t, r);", 3)
        e("}", 2)
        e("rd_tags_shut(&t, r);", 2)
        e("}", 1)
        e("m->unknown = t.kept;", 1)
        self.close()

    # -- writing

    def write_one(self, f, source):
        if f.struct:
            return f"{f.struct.name}_write(&{source}, w, v);"
        if f.type in SCALARS:
            return f"wr_{f.type}(w, {source});"
        null = "false" if f.array else when_word(f.null, f.versions)
        if f.type == "records":
            return f"wr_records(w, {source}, {source}_chain, {self.flex_of(f)}, {null});"
        return f"wr_{f.type}(w, {source}, {self.flex_of(f)}, {null});"

    def write_field(self, f, depth):
        e, x = self.e, f"m->{f.name}"
        if f.array:
            e(f"wr_count(w, {x}_n, {self.flex_of(f)}, {when_word(f.null, f.versions)});", depth)
            e(f"for (int32_t i = 0; i < {x}_n; i++) {{", depth)
            e(self.write_one(f, f"{x}[i]"), depth + 1)
            e("}", depth)
        elif f.pointer():
            mark = f"wr_present(w, {x} != NULL, {'true' if f.tag is not None else 'false'});"
            cond = when(f.null, f.versions)
            if cond:
                e(f"if ({cond}) {{", depth)
                e(mark, depth + 1)
                e("}", depth)
            else:
                e(mark, depth)
            e(f"if ({x} != NULL) {{", depth)
            e(f"{f.struct.name}_write({x}, w, v);", depth + 1)
            e("}", depth)
        else:
            e(self.write_one(f, x), depth)

    def write(self, s):
        e = self.e
        self.open(f"static void {s.name}_write(const struct {s.name} *m, struct wr *w, [[maybe_unused]] int v)")
        e(self.flex_line(s), 1)
        for f in s.inline():
            cond = when(f.versions, s.versions)
            if cond:
                e(f"if ({cond}) {{", 1)
            self.write_field(f, 2 if cond else 1)
            if cond:
                e("}", 1)
        if not self.m.flexible.empty():
            e("if (flex) {", 1)
            e(f"{s.name}_tags_write(m, w, v);" if s.tagged() else "wr_unknown(w, m->unknown);", 2)
            e("}", 1)
        self.close()

    def tags_write(self, s):
        e, within = self.e, s.versions & self.m.flexible
        for f in s.tagged():
            self.open(f"static void {s.name}_tag{f.tag}_write(const struct {s.name} *m, struct wr *w, [[maybe_unused]] int v)")
            e("[[maybe_unused]] const bool flex = true;", 1)
            self.write_field(f, 1)
            self.close()
        self.open(f"static void {s.name}_tags_write(const struct {s.name} *m, struct wr *w, [[maybe_unused]] int v)")
        for f in s.tagged():
            cond = when(f.versions, within)
            e(f"const bool has{f.tag} = {cond + ' && ' if cond else ''}{self.not_plain(f)};", 1)
        e("struct wr_tags t;", 1)
        e(f"wr_tags_open(&t, w, m->unknown, {' + '.join(f'(uint32_t)has{f.tag}' for f in s.tagged())});", 1)
        for f in s.tagged():
            e(f"if (has{f.tag}) {{", 1)
            e("struct wr size = wr_measure();", 2)
            e(f"{s.name}_tag{f.tag}_write(m, &size, v);", 2)
            e(f"wr_tags_known(&t, w, {f.tag}, size.measured);", 2)
            e(f"{s.name}_tag{f.tag}_write(m, w, v);", 2)
            e("}", 1)
        e("wr_tags_shut(&t, w);", 1)
        self.close()

    # -- showing

    def show_one(self, f, label, x):
        if f.struct:
            return [f'show_text(s, "{label}");'] * bool(label) + [f"{f.struct.name}_show(&{x}, s);"]
        if f.type in ("bytes", "records"):
            chain = f"{x}_chain" if f.type == "records" and not f.array else "NULL"
            return [f'show_bytes(s, "{label}", {x}, {chain});']
        kind = {"uuid": "uuid", "bool": "bool", "string": "string", "f64": "f64"}.get(f.type, "i64")
        return [f'show_{kind}(s, "{label}", {x});']

    def show(self, s):
        e = self.e
        self.open(f"static void {s.name}_show(const struct {s.name} *m, struct str *s)")
        for n, f in enumerate(s.fields):
            x, label = f"m->{f.name}", f"{' ' if n else '{'}{f.name}="
            if f.array:
                e(f'show_count(s, "{label}", {x}_n);', 1)
                e(f"for (int32_t i = 0; i < {x}_n; i++) {{", 1)
                for line in self.show_one(f, " " if not f.struct else "", f"{x}[i]"):
                    e(line, 2)
                e("}", 1)
                e("show_count_end(s);", 1)
            elif f.pointer():
                e(f'show_text(s, {x} == NULL ? "{label}null" : "{label}");', 1)
                e(f"if ({x} != NULL) {{", 1)
                e(f"{f.struct.name}_show({x}, s);", 2)
                e("}", 1)
            else:
                for line in self.show_one(f, label, x):
                    e(line, 1)
        if not self.m.flexible.empty():
            e("show_unknown(s, m->unknown);", 1)
        e('show_text(s, "}");' if s.fields else 'show_text(s, "{}");', 1)
        self.close()

    # -- the public functions

    def doors(self):
        e, n = self.e, self.m.name
        v = self.m.versions
        self.open(f"err {n}_get(struct {n} *m, struct rd *r, int v)")
        e(f"if (v < {v.lo} || v > {v.hi}) {{", 1)
        e("return ERR_BAD_VERSION;", 2)
        e("}", 1)
        e(f"{n}_read(m, r, v);", 1)
        e("return rd_status(r);", 1)
        self.close()
        self.open(f"void {n}_put(const struct {n} *m, struct wr *w, int v)")
        e(f"must(v >= {v.lo} && v <= {v.hi});", 1)
        e(f"{n}_write(m, w, v);", 1)
        self.close()
        self.open(f"void {n}_print(const struct {n} *m, struct str *s)")
        e(f"{n}_show(m, s);", 1)
        self.close()
        for verb, ret, args, call in (                  # the same for struct msg, whose members do not know the type
                ("init", "void", "void *m", "m"), ("get", "err", "void *m, struct rd *r, int v", "m, r, v"),
                ("put", "void", "const void *m, struct wr *w, int v", "m, w, v"), ("print", "void", "const void *m, struct str *s", "m, s")):
            self.open(f"static {ret} {n}_any_{verb}({args})")
            e(f"{'return ' if ret != 'void' else ''}{n}_{verb}({call});", 1)
            self.close()
        e(f"const struct msg {n}_msg = {{")
        e(f'"{n[2:]}", sizeof(struct {n}), {v.lo}, {v.hi}, {flexible_from(self.m)},', 1)
        e(f"{n}_any_init, {n}_any_get, {n}_any_put, {n}_any_print,", 1)
        e("};")
        e()


def flexible_from(m):
    return "MSG_INFLEXIBLE" if m.flexible.empty() else str(m.flexible.lo)


def origin(file):
    return f"Generated by scripts/msgc.py from {'/'.join(file.path.split('/')[-3:])}; not to be edited."


def header_text(file):
    e = Emit()
    for line in comment([origin(file)] + file.doc):
        e(line)
    e("#pragma once")
    e()
    e('#include "wire/msg.h"')
    e()
    if file.api:
        n, m = file.api.upper(), file.messages[0]
        e("enum {")
        e(f"K_{n}_KEY = {file.key},", 1)
        e(f"K_{n}_MIN = {m.versions.lo},", 1)
        e(f"K_{n}_MAX = {m.versions.hi},", 1)
        e(f"K_{n}_SERVE_MIN = {file.serve.lo},", 1)
        e(f"K_{n}_SERVE_MAX = {file.serve.hi},", 1)
        e(f"K_{n}_FLEXIBLE = {flexible_from(m)},", 1)
        e("};")
        e()
    if file.records:
        e("enum {")
        for m in file.messages:
            e(f"{m.name.upper()}_KEY = {m.key},", 1)
            e(f"{m.name.upper()}_MAX = {m.versions.hi},", 1)
        e("};")
        e()
    for m in file.messages:
        for s in structs_of(m):
            declare(e, m, s)
        e(f"err {m.name}_get(struct {m.name} *m, struct rd *r, int v);")
        e(f"void {m.name}_put(const struct {m.name} *m, struct wr *w, int v);")
        e(f"void {m.name}_print(const struct {m.name} *m, struct str *s);")
        e(f"extern const struct msg {m.name}_msg;")
        e()
    return e.text()


def code_text(file):
    e = Emit()
    e(f"/* {origin(file)} */")
    e(f'#include "wire/{file.unit()}.h"')
    e()
    e('#include "base/must.h"')
    e('#include "show.h"')
    e()
    for m in file.messages:
        Code(e, m).run()
    return e.text()


def api_header_text(apis):
    e = Emit()
    e("/* Generated by scripts/msgc.py: the table of all APIs, in order of key; not to be edited. */")
    e("#pragma once")
    e()
    e('#include "wire/msg.h"')
    e()
    e("enum k_key {")
    for a in apis:
        e(f"K_{a.api.upper()} = {a.key},", 1)
    e("};")
    e()
    e(f"#define K_APIS {len(apis)}")
    e()
    e("extern const struct msg_api k_apis[K_APIS];")
    e("const struct msg_api *k_api_find(int key);         /* NULL: no such API here */")
    return e.text()


def api_code_text(apis):
    e = Emit()
    e("/* Generated by scripts/msgc.py; not to be edited. */")
    e('#include "wire/k_api.h"')
    e()
    for a in apis:
        e(f'#include "wire/k_{a.stem()}.h"')
    e()
    e("const struct msg_api k_apis[K_APIS] = {")
    for a in apis:
        m = a.messages[0]
        e(f'{{{a.key}, {m.versions.lo}, {m.versions.hi}, {a.serve.lo}, {a.serve.hi}, {flexible_from(m)}, "{a.api}", '
          f"&k_{a.api}_req_msg, &k_{a.api}_resp_msg}},", 1)
    e("};")
    e()
    e("const struct msg_api *k_api_find(int key) {")
    e("switch (key) {", 1)
    for n, a in enumerate(apis):
        e(f"case {a.key}:", 1)
        e(f"return &k_apis[{n}];", 2)
    e("default:", 1)
    e("return NULL;", 2)
    e("}", 1)
    e("}")
    return e.text()
