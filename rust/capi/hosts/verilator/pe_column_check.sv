// The column beside its golden model: every clock, every row's sum against the C ABI, bit for bit.
//
// `inject` gives each row a sum from outside instead of its neighbour's, so that a bench reaches any triple of
// operands in any row.
module pe_column_check #(
    parameter int ROWS  = 128,
    parameter bit MXFP8 = 1'b0
) (
    input  logic                  clock,
    input  logic                  load,
    input  logic                  inject,
    input  logic                  stationary_is_e5m2,
    input  logic                  moving_is_e5m2,
    input  logic [ROWS-1:0][31:0] stationary,
    input  logic [ROWS-1:0][ 7:0] stationary_scale,
    input  logic [ROWS-1:0][31:0] moving,
    input  logic [ROWS-1:0][ 7:0] moving_scale,
    input  logic [ROWS-1:0][31:0] injected,
    output logic [ROWS-1:0][31:0] sums,
    output longint unsigned       checked,
    output longint unsigned       mismatches
);
  import "DPI-C" context function int unsigned golden_bf16_step(
      input int unsigned moving, input int unsigned stationary, input int unsigned sum);
  import "DPI-C" context function int unsigned golden_mxfp8_step(
      input bit moving_is_e5m2, input int unsigned moving, input int unsigned moving_scale,
      input bit stationary_is_e5m2, input int unsigned stationary, input int unsigned stationary_scale,
      input int unsigned sum);

  logic [ROWS-1:0][31:0] held, expected, above;
  logic [ROWS-1:0][7:0] held_scale;
  logic stepped = 1'b0;

  pe_column #(.ROWS(ROWS), .MXFP8(MXFP8)) column (.*);

  // What the column adds to: the model is asked before the clock changes it.
  always_comb
    for (int row = 0; row < ROWS; row++)
      above[row] = inject ? injected[row] : row == 0 ? 32'd0 : sums[row-1];

  always_ff @(posedge clock) begin
    stepped <= !load;
    if (!load)
      for (int row = 0; row < ROWS; row++)
        expected[row] <= MXFP8
            ? golden_mxfp8_step(moving_is_e5m2, moving[row], {24'b0, moving_scale[row]},
                                stationary_is_e5m2, held[row], {24'b0, held_scale[row]}, above[row])
            : golden_bf16_step({16'b0, moving[row][15:0]}, {16'b0, held[row][15:0]}, above[row]);
  end

  /* verilator lint_off BLKSEQ */ // counters within one loop
  always_ff @(negedge clock)
    if (stepped)
      for (int row = 0; row < ROWS; row++) begin
        checked = checked + 1;
        if (sums[row] !== expected[row]) begin
          mismatches = mismatches + 1;
          if (mismatches <= 10)
            $display("row %0d: moving %h stationary %h: %h, the model says %h", row, moving[row], held[row],
                     sums[row], expected[row]);
        end
      end

  /* verilator lint_on BLKSEQ */

  initial begin
    checked = 0;
    mismatches = 0;
  end
endmodule
