# What jaq does not know, or does otherwise than gojq.

# Reading, setting and deleting by path: `_get`, `_set` and `_delete` are native.
def getpath($path): _get($path);
def setpath($path; $value): _set([$path, $value]);
def delpaths($paths): _delete($paths);
def del(f): delpaths([path(f)]);
def _assign(paths; f): f as $value | reduce path(paths) as $path (.; _set([$path, $value]));
def _update(paths; f):
  reduce path(paths) as $path ([., []];
    . as [$whole, $gone]
    | first(($whole | _get($path) | f | [., $gone]), [null, $gone + [$path]]) as [$value, $left]
    | [($whole | _set([$path, $value])), $left])
  | . as [$whole, $gone] | $whole | if $gone == [] then . else _delete($gone) end;

# SQL-like functions.
def INDEX(stream; f): reduce stream as $row ({}; . + {($row | f | tostring): $row});
def INDEX(f): INDEX(.[]; f);
def IN(s): any(s == .; .);
def IN(src; s): any(src == s; .);

# Streams.
def tostream: path(def r: (.[]? | r), .; r) as $p | getpath($p) | reduce path(.[]?) as $q ([$p, .]; [$p + $q]);
def truncate_stream(stream):
  . as $n | null | stream | . as $input | if (.[0] | length) > $n then [.[0][$n:]] + $input[1:] else empty end;
def fromstream(f):
  foreach f as $i ([null, false, null];
    (if .[1] then [null, false, null] else . end)
    | if ($i | length) == 2
      then [_set([[0] + $i[0], $i[1]])[0], ($i[0] | length) == 0, null]
      else [.[0], ($i[0] | length) == 1, null] end;
    if .[1] then .[0] else empty end);

# Objects of entries: names in any of the spellings that are in use.
def from_entries:
  reduce .[] as $x ({};
    . + {($x
        | if .key == null then .k // .name // .Name // .K // .Key else .key end
        | if type == "string" then . else error("object key must be a string") end):
      ($x | if has("value") then .value elif has("v") then .v else .Value end)});
def with_entries(f): to_entries | map(f) | from_entries;

# Formats.
def @csv:
  map(if . == null then "" elif type == "string" then "\"" + (split("\"") | join("\"\"")) + "\""
      elif type == "number" or type == "boolean" then tojson
      else error("object or array is not valid in a csv row") end) | join(",");
def @tsv:
  map(if . == null then ""
      elif type == "string"
      then split("\\") | join("\\\\") | split("\t") | join("\\t") | split("\n") | join("\\n") | split("\r") | join("\\r")
      elif type == "number" or type == "boolean" then tojson
      else error("object or array is not valid in a tsv row") end) | join("\t");

# The end: without a value as if there were no more results, else an error.
def halt_error: if . == null then halt else error end;
def halt_error($code): halt_error;
