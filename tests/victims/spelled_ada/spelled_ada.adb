--  SPDX-License-Identifier: MIT
with Ada.Text_IO;
with Ring; use Ring;
procedure Spelled_Ada is
   B : Buffer;
   procedure In_C (N : Integer);
   pragma Import (C, In_C, "ring__in_c");
   procedure Local (I : Integer) is
   begin
      Ring.Push (B, I);
   end Local;
begin
   Ada.Text_IO.Put_Line ("ready");
   Ada.Text_IO.Flush;
   for I in 1 .. 20_000 loop
      Local (I mod 7);
      Push (B, 1, 2);
      Inner.Deep (Count_All (B));
      B := B + B;
      In_C (I);
      delay 0.005;
   end loop;
end Spelled_Ada;
