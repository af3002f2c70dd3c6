-- JGroups 5.5 for Wireshark and tshark. Written by `rgroups decode --wireshark`; do not edit.
-- Install: rgroups decode --wireshark > ~/.local/lib/wireshark/plugins/jgroups.lua
-- Try:     tshark -X lua_script:jgroups.lua -r FILE -Y jgroups -V

--@TABLES@

local jgroups = Proto("jgroups", "JGroups")
local F = {
  version = ProtoField.string("jgroups.version", "Version"),
  multicast = ProtoField.bool("jgroups.multicast", "Multicast"),
  list = ProtoField.bool("jgroups.list", "Message list"),
  cluster = ProtoField.string("jgroups.cluster", "Cluster"),
  type = ProtoField.string("jgroups.type", "Message type"),
  flags = ProtoField.string("jgroups.flags", "Flags"),
  src = ProtoField.string("jgroups.src", "Source"),
  dest = ProtoField.string("jgroups.dest", "Destination"),
  protocol = ProtoField.string("jgroups.protocol", "Protocol"),
  header = ProtoField.string("jgroups.header", "Header"),
  seqno = ProtoField.string("jgroups.seqno", "Seqno"),
  payload = ProtoField.bytes("jgroups.payload", "Payload"),
  handshake = ProtoField.string("jgroups.handshake", "Handshake"),
  close = ProtoField.string("jgroups.close", "Close"),
}
for _, field in pairs(F) do table.insert(jgroups.fields, field) end
local malformed = ProtoExpert.new("jgroups.malformed", "JGroups: cannot be read on",
  expert.group.MALFORMED, expert.severity.ERROR)
jgroups.experts = { malformed }

-- A cursor. What is missing raises an error, which ends the packet.
local Reader = {}
Reader.__index = Reader
local function reader(tvb, pos) return setmetatable({ tvb = tvb, pos = pos or 0 }, Reader) end
function Reader:left() return self.tvb:len() - self.pos end
function Reader:take(n)
  if n < 0 or n > self:left() then error("ends too early at byte " .. self.pos, 0) end
  local range = n > 0 and self.tvb(self.pos, n) or nil
  self.pos = self.pos + n
  return range
end
function Reader:since(start)
  return self.tvb(start, self.pos - start)
end
function Reader:u8() return self:take(1):uint() end
function Reader:u16() return self:take(2):uint() end
function Reader:i16() return self:take(2):int() end
function Reader:i32() return self:take(4):int() end
function Reader:i64() return tostring(self:take(8):int64()) end
function Reader:compressed(most)
  local n = self:u8()
  if n == 0 then return "0" end
  if n > most then error("bad length at byte " .. self.pos, 0) end
  return tostring(self:take(n):le_uint64())
end
function Reader:text(n) return n == 0 and "" or self:take(n):string() end
function Reader:count(n)
  -- Everything that is counted has at least one byte.
  if n > self:left() then error("bad count at byte " .. self.pos, 0) end
  return n
end

local function printable(text)
  return (text:gsub("%c", function(c) return string.format("\\x%02x", c:byte()) end))
end
local function named(names, n)
  local name = names and names[n]
  return name or tostring(n)
end
local function uuid(r)
  local lsb, msb = r:take(8), r:take(8)
  local m, l = msb:bytes():tohex(true), lsb:bytes():tohex(true)
  return m:sub(1, 8) .. "-" .. m:sub(9, 12) .. "-" .. m:sub(13, 16) .. "-" .. l:sub(1, 4) .. "-" .. l:sub(5)
end
local function ip(r)
  local n, host = r:u8(), "none"
  if n == 4 then host = tostring(r:take(4):ipv4())
  elseif n == 16 then host = "[" .. tostring(r:take(16):ipv6()) .. "]"; r:i32()
  elseif n ~= 0 then error("bad address at byte " .. r.pos, 0) end
  return host .. ":" .. r:u16()
end

local read = {}
function read.u8(r) local n = r:u8(); return n, n end
function read.u16(r) local n = r:u16(); return n, n end
function read.i32(r) local n = r:i32(); return tostring(n), n end
function read.i64(r) return r:i64() end
function read.bool(r) return tostring(r:u8() ~= 0) end
function read.cint(r) return r:compressed(4) end
function read.clong(r) return r:compressed(8) end
function read.str(r)
  if r:u8() ~= 1 then return "null" end
  return printable(r:text(r:u16()))
end
function read.astr(r)
  local n = r:i16()
  return n < 0 and "null" or printable(r:text(n))
end
function read.counted(r)
  local n = r:i32()
  if n < 0 then return "null" end
  r:take(n)
  return n .. " bytes"
end
function read.buf(r) return r:u8() == 1 and read.counted(r) or "null" end
function read.addr(r)
  local flags = r:u8()
  local function extended()
    local id = uuid(r)
    r:compressed(4)
    for _ = 1, r:u8() do r:take(r:u8()); r:take(r:u8()) end
    return id
  end
  local function site()
    local id = extended()
    local site, name = read.str(r), read.str(r)
    return name ~= "null" and name .. ":" .. site or id .. ":" .. site
  end
  if flags == 0 then
    local magic = r:i16()
    if magic == 22 then return "time " .. r:i64() end
    if magic == 12 then return extended() end
    if magic ~= 19 then error("unknown address class " .. magic, 0) end
    local id = uuid(r)
    r:compressed(4)
    return id
  elseif flags % 2 == 1 then return "null"
  elseif math.floor(flags / 2) % 2 == 1 then return uuid(r)
  elseif math.floor(flags / 4) % 2 == 1 then return site()
  elseif math.floor(flags / 8) % 2 == 1 then return "SiteMaster " .. site()
  elseif math.floor(flags / 16) % 2 == 1 then return ip(r)
  end
  error("unknown address kind " .. flags, 0)
end
function read.addrs(r)
  local n = r:i16()
  if n < 0 then return "null", nil, 0 end
  local all = {}
  for i = 1, r:count(n) do all[i] = read.addr(r) end
  return "[" .. table.concat(all, ", ") .. "]", nil, n
end
function read.ip(r) return ip(r) end
function read.viewid(r) local a = read.addr(r); return "[" .. a .. "|" .. r:compressed(8) .. "]" end
function read.mergeid(r) local a = read.addr(r); return a .. "::" .. r:i32() end
function read.lseq(r)
  local n = r:u8()
  r:take(math.floor(n / 16))
  r:take(n % 16)
end
function read.digest(r)
  local members, _, n = read.addrs(r)
  for _ = 1, n do read.lseq(r) end
  return "of " .. members
end
function read.token(r)
  local magic = r:i16()
  if magic == 16 then r:u8(); r.pos = r.pos - 1; return read.str(r) and "fixed membership" end
  if magic == 17 then return "X509 " .. read.buf(r) end
  local class = r:text(r:u16())
  if class:sub(-9) == "Krb5Token" then read.str(r) end
  return class
end

local header, message
function read.headers(r)
  local all = {}
  for i = 1, r:i16() do all[i] = header(r, nil) end
  return table.concat(all, " ")
end
local function value(field, r)
  if field.form == "opt" then
    if r:u8() == 0 then return "null" end
    return read[field.of](r)
  elseif field.form == "list" then
    local all = {}
    for i = 1, r:count(r:i32()) do
      local parts = {}
      for j, form in ipairs(field.of) do parts[j] = read[form](r) end
      all[i] = table.concat(parts, "=")
    end
    return "[" .. table.concat(all, ", ") .. "]"
  end
  return read[field.form](r)
end

-- One header; its text, such as GMS:VIEW.
function header(r, tree)
  local start = r.pos
  local prot, magic = r:i16(), r:i16()
  local protocol = named(PROTOCOLS, prot)
  local layout = LAYOUTS[magic]
  if not layout then error("unknown header class " .. magic .. " of " .. protocol, 0) end
  local label, kind, last, seqno, items = protocol, nil, 0, nil, {}
  for _, field in ipairs(layout) do
    local wanted = true
    if field.kinds then wanted = field.kinds[kind] end
    if field.bit then wanted = math.floor(last / field.bit) % 2 == 1 end
    if wanted then
      local at = r.pos
      local text, number = value(field, r)
      if number then last = number end
      if field.name == "kind" then kind = number; label = label .. ":" .. named(field.names, number) end
      if field.name == "seqno" then label = label .. "#" .. text; seqno = text end
      if field.names then text = named(field.names, number) end
      table.insert(items, { range = r:since(at), text = field.name .. ": " .. tostring(text) })
    end
  end
  if tree then
    local node = tree:add(F.header, r:since(start), label)
    node:append_text(" (" .. CLASSES[magic] .. ")")
    node:add(F.protocol, r.tvb(start, 2), protocol)
    if seqno then node:add(F.seqno, r:since(start), seqno) end
    for _, item in ipairs(items) do node:add(item.range, item.text) end
  end
  return label
end

-- The bytes of an object whose end can be told.
local function object(r)
  if r:u8() == 0 then return "null" end
  local magic = r:i16()
  if magic == 15 then
    local bits, first = r:i32(), r:i64()
    r:take(math.floor((bits + 63) / 64) * 8)
    return "seqnos from " .. first
  elseif magic == 4 then
    local id = read.viewid(r)
    return "view " .. id .. " " .. read.addrs(r)
  elseif magic == 20 then return "object of " .. read.counted(r)
  elseif magic == 9 or magic == 10 then return "digest " .. read.digest(r)
  elseif magic == 21 then
    local tag = r:u8()
    local sizes = { [1] = 1, [2] = 1, [3] = 1, [4] = 1, [5] = 2, [6] = 2, [7] = 8, [8] = 8,
      [9] = 4, [10] = 4, [11] = 4, [12] = 4, [13] = 8, [14] = 8, [15] = 2, [16] = 2, [19] = 1 }
    if tag == 0 then return "null" end
    if sizes[tag] then r:take(sizes[tag]); return "primitive" end
    if tag == 17 then
      local ascii = r:u8() ~= 0
      local length = ascii and r:i32() or r:u16()
      return printable(r:text(length))
    end
    if tag == 18 then return read.counted(r) end
  end
  if r.alone then
    r:take(r:left())
    return "class " .. magic
  end
  error("an object of class " .. magic .. ", whose end is not known here", 0)
end

local function messages(r, tree, n, labels)
  r.alone = false
  for _ = 1, r:count(n) do
    local kind = r:i16()
    message(r, tree, kind, labels)
  end
end

local function payload(r, tree, kind, labels)
  local start = r.pos
  if kind == 0 or kind == 1 or kind == 6 then
    if kind == 1 then r:u8() end
    local n = r:i32()
    if n > 0 then tree:add(F.payload, r:take(n)) end
  elseif kind == 3 then
    local text = object(r)
    tree:add(r:since(start), "object: " .. text)
  elseif kind == 4 then
    local n = r:compressed(8)
    tree:add(r:since(start), "number: " .. n)
  elseif kind == 5 then messages(r, tree, r:i32(), labels)
  elseif kind == 7 then
    local n = r:i32()
    read.addr(r)
    messages(r, tree, n, labels)
  elseif kind >= 32 then r:take(r:left())
  elseif kind ~= 2 then error("unknown message type " .. kind, 0) end
end

function message(r, tree, kind, labels)
  local start = r.pos
  local node = tree:add(r.tvb(start), "Message")
  node:add(F.type, r.tvb(start, 1), named(TYPES, kind))
  local leading, bits = r:u8(), r:u16()
  local names = {}
  for _, flag in ipairs(FLAGS) do
    if math.floor(bits / flag[1]) % 2 == 1 then table.insert(names, flag[2]) end
  end
  node:add(F.flags, r.tvb(start + 1, 2), table.concat(names, "|"))
  local at = r.pos
  if leading % 2 == 1 then
    local text = read.addr(r)
    node:add(F.dest, r:since(at), text)
    at = r.pos
  end
  if math.floor(leading / 2) % 2 == 1 then
    local text = read.addr(r)
    node:add(F.src, r:since(at), text)
  end
  for _ = 1, r:i16() do
    local label = header(r, node)
    if label:sub(1, 3) ~= "TP:" then table.insert(labels, label) end
  end
  payload(r, node, kind, labels)
  node:set_len(r.pos - start)
end

local function version(n)
  return math.floor(n / 2048) .. "." .. math.floor(n / 64) % 32 .. "." .. n % 64
end
local function is_packet(tvb, at)
  if tvb:len() < at + 3 then return false end
  local n = tvb(at, 2):uint()
  return math.floor(n / 64) == math.floor(VERSION / 64) and tvb(at + 2, 1):uint() < 4
end

local function body(r, tree, labels)
  local start = r.pos
  tree:add(F.version, r.tvb(start, 2), version(r:u16()))
  local flags = r:u8()
  local list, multicast = flags % 2 == 1, math.floor(flags / 2) % 2 == 1
  tree:add(F.list, r.tvb(start + 2, 1), list)
  tree:add(F.multicast, r.tvb(start + 2, 1), multicast)
  if not list then
    local kind = r:i16()
    r.alone = true
    return message(r, tree, kind, labels)
  end
  local at = r.pos
  local dest = read.addr(r)
  tree:add(F.dest, r:since(at), dest)
  at = r.pos
  local src = read.addr(r)
  tree:add(F.src, r:since(at), src)
  at = r.pos
  local cluster = read.astr(r)
  tree:add(F.cluster, r:since(at), cluster)
  messages(r, tree, r:i32(), labels)
end

-- Runs `f`; what cannot be read is marked and never an error of the script.
local function guarded(tvb, pinfo, tree, title, f)
  local node = tree:add(jgroups, tvb(), title)
  local labels = {}
  local ok, why = pcall(f, reader(tvb), node, labels)
  if not ok then node:add_proto_expert_info(malformed, tostring(why)) end
  pinfo.cols.protocol = "JGroups"
  local info = table.concat(labels, " ")
  if info ~= "" then
    if tostring(pinfo.cols.info):sub(1, 8) == "JGroups " then pinfo.cols.info:append("; " .. info)
    else pinfo.cols.info = "JGroups " .. info end
  end
end

local function packet(tvb, pinfo, tree) guarded(tvb, pinfo, tree, "JGroups", body) end

-- The content of a frame: a packet, or the bare message of FD_SOCK2.
local function content(tvb, pinfo, tree)
  if tvb:len() > 0 and tvb(0, 1):uint() < 4 then
    guarded(tvb, pinfo, tree, "JGroups FD_SOCK2", function(r, node, labels) message(r, node, 2, labels) end)
  else packet(tvb, pinfo, tree) end
end

local MAX_FRAME = 2 ^ 27
local COOKIE = 0x62656c61
local CLOSE = -5
function jgroups.dissector(tvb, pinfo, tree)
  local pos = 0
  while pos < tvb:len() do
    local left = tvb:len() - pos
    local function wait(n)
      pinfo.desegment_offset = pos
      pinfo.desegment_len = n or DESEGMENT_ONE_MORE_SEGMENT
    end
    if left < 4 then return wait() end
    local n = tvb(pos, 4):int()
    if tvb(pos, 4):uint() == COOKIE then
      if left < 8 then return wait() end
      local size = 8 + tvb(pos + 6, 2):uint()
      if left < size then return wait(size - left) end
      guarded(tvb(pos, size):tvb(), pinfo, tree, "JGroups handshake", function(r, node)
        r:take(4)
        local v = version(r:u16())
        r:take(2)
        node:add(F.handshake, r.tvb(), v .. " from " .. ip(r))
      end)
      pos = pos + size
    elseif n == CLOSE then
      local node = tree:add(jgroups, tvb(pos, 4), "JGroups graceful close")
      node:add(F.close, tvb(pos, 4), "graceful close")
      pinfo.cols.protocol = "JGroups"
      pos = pos + 4
    elseif n <= 0 or n > MAX_FRAME then
      local node = tree:add(jgroups, tvb(pos), "JGroups")
      node:add_proto_expert_info(malformed, "a frame of length " .. n)
      return
    else
      if left < 4 + n then return wait(4 + n - left) end
      content(tvb(pos + 4, n):tvb(), pinfo, tree)
      pos = pos + 4 + n
    end
  end
end

local function heuristic_udp(tvb, pinfo, tree)
  if not is_packet(tvb, 0) then return false end
  packet(tvb, pinfo, tree)
  return true
end
local function heuristic_tcp(tvb, pinfo, tree)
  if tvb:len() < 4 then return false end
  local starts = tvb(0, 4):uint() == COOKIE
  if not starts and not is_packet(tvb, 4) then return false end
  pinfo.conversation = jgroups
  jgroups.dissector(tvb, pinfo, tree)
  return true
end
jgroups:register_heuristic("udp", heuristic_udp)
jgroups:register_heuristic("tcp", heuristic_tcp)
