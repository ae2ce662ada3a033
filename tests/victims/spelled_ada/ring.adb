--  SPDX-License-Identifier: MIT
package body Ring is
   procedure Push (B : in out Buffer; V : Integer) is
   begin
      B.N := (B.N + V) mod 1000;
      Total := B.N;
   end Push;

   procedure Push (B : in out Buffer; V : Integer; W : Integer) is
   begin
      B.N := (B.N + V * W) mod 1000;
   end Push;

   function "+" (A : Buffer; B : Buffer) return Buffer is
      R : Buffer;
   begin
      R.N := (A.N + B.N) mod 1000;
      return R;
   end "+";

   function Count_All (B : Buffer) return Integer is
      function Nested (Q : Integer) return Integer is
      begin
         return Q + B.N;
      end Nested;
   begin
      return Nested (B.N);
   end Count_All;

   package body Inner is
      procedure Deep (X : Integer) is
      begin
         Total := X;
      end Deep;
   end Inner;
end Ring;
