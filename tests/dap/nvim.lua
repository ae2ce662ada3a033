-- SPDX-License-Identifier: MIT
-- nvim.lua - nvim-dap, in a Neovim without a window, attaches, sets a logpoint and reads its lines. What it
-- needs is in TRAPLINE, PID, SOURCE, LINE; NVIM_DAP is the folder of the plugin. Writes RESULT.
local result = io.open(os.getenv('RESULT'), 'w')

local function finish(text)
  result:write(text .. '\n')
  result:close()
  vim.cmd('qa!')
end

-- Neovim before 0.8 has no folder for logs, which nvim-dap of today asks for.
if vim.fn.has('nvim-0.8') == 0 then
  local stdpath = vim.fn.stdpath
  vim.fn.stdpath = function(what) return stdpath(what == 'log' and 'cache' or what) end
end
vim.opt.runtimepath:append(os.getenv('NVIM_DAP'))
local has, dap = pcall(require, 'dap')
if not has then
  finish('SKIP nvim-dap does not load in this Neovim: ' .. tostring(dap):gsub('\n.*', ''))
  return
end
dofile(os.getenv('CONFIGURATION'))
dap.adapters.trapline = { type = 'executable', command = os.getenv('TRAPLINE'), args = { 'dap' } }

local lines = {}
local stopped = 0
dap.listeners.after.event_stopped.test = function() stopped = stopped + 1 end
dap.listeners.after.event_output.test = function(_, body) table.insert(lines, body) end

vim.cmd('edit ' .. os.getenv('SOURCE'))
vim.api.nvim_win_set_cursor(0, { tonumber(os.getenv('LINE')), 0 })
dap.set_breakpoint('c == RED', nil, 'color {c}')
local ran, why = pcall(dap.run, { type = 'trapline', request = 'attach', name = 'test', pid = tonumber(os.getenv('PID')) })
if not ran then
  finish('SKIP nvim-dap does not run in this Neovim: ' .. tostring(why):gsub('\n.*', ''))
  return
end

local function has_line()
  for _, body in ipairs(lines) do
    if body.output:find('color RED', 1, true) and body.source and body.source.path == os.getenv('SOURCE') then
      return true
    end
  end
  return false
end

if not vim.wait(40000, has_line, 50) then
  finish('no line came; ' .. #lines .. ' others')
  return
end
-- A race is a diagnostic at each of its lines.
local place = function(line) return { path = os.getenv('SOURCE'), line = line, text = 'write' } end
dap.listeners.after.event_traplineRace.trapline_races(nil, { title = 'race', first = place(3), second = place(5) })
local found = vim.diagnostic.get(0)
if #found ~= 2 or found[1].lnum ~= 2 or found[2].message ~= 'race: write' then
  finish('a race is no diagnostic: ' .. vim.inspect(found))
  return
end
local ended = false
dap.disconnect({ terminateDebuggee = false }, function() ended = true end)
vim.wait(10000, function() return ended or dap.session() == nil end, 50)
finish(stopped == 0 and 'passed' or 'a stopped event came')
